// camshaft operators: what models may use.
#include <fmt/format.h>

#include <memory>

#include "camshaft/load_plugin.hpp"
#include "camshaft/system.hpp"
#include "tools/commands.h"
#include "tools/report.h"

namespace camshaft::tools {

namespace {

/// Of what --plugin and --ort-custom-ops brought.
nlohmann::json entry_of(const nlohmann::json& plugin) {
  const std::string full = plugin["name"];
  const size_t end = full.rfind("::");
  return {{"domain", end == std::string::npos ? "ai.onnx" : full.substr(0, end)},
          {"operator", end == std::string::npos ? full : full.substr(end + 2)},
          {"kind", plugin["kind"]},
          {"version", plugin["version"]},
          {"file", plugin["file"]}};
}

int list_operators(bool as_json) {
  const Record operators = known_operators();
  const nlohmann::json loaded = nlohmann::json::parse(plugins().json());
  if (as_json) {
    nlohmann::json list = nlohmann::json::parse(operators.json());
    for (const nlohmann::json& plugin : loaded) list.push_back(entry_of(plugin));
    print_json(list);
    return 0;
  }
  for (size_t i = 0; i < operators.size(); ++i)
    fmt::print("{} {} since operator set {}\n", operators[i]["domain"].text(), operators[i]["operator"].text(),
               operators[i]["since"].integer());
  for (const nlohmann::json& plugin : loaded) {
    const nlohmann::json entry = entry_of(plugin);
    const std::string domain = entry["domain"], name = entry["operator"], file = entry["file"];
    fmt::print("{} {} of {}\n", domain, name, file);
  }
  return 0;
}

}  // namespace

Command add_operators_command(CLI::App& app) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("operators", "List the operators that models may use: ONNX's, others', and those of --plugin");
  command->add_flag("--json", *as_json, "Print the list as JSON");
  command->footer("docs/operators.md says more: element types, and what runs on kernels.");
  return {command, [as_json] { return list_operators(*as_json); }};
}

}  // namespace camshaft::tools

// camshaft operators: what models may use.
#include <fmt/format.h>

#include <memory>

#include "camshaft/system.hpp"
#include "tools/commands.h"
#include "tools/report.h"

namespace camshaft::tools {

namespace {

int list_operators(bool as_json) {
  const Record operators = known_operators();
  if (as_json) {
    print_json(nlohmann::json::parse(operators.json()));
    return 0;
  }
  for (size_t i = 0; i < operators.size(); ++i)
    fmt::print("{} {} since operator set {}\n", operators[i]["domain"].text(), operators[i]["operator"].text(),
               operators[i]["since"].integer());
  return 0;
}

}  // namespace

Command add_operators_command(CLI::App& app) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("operators", "List the ONNX operators that models may use");
  command->add_flag("--json", *as_json, "Print the list as JSON");
  command->footer("docs/operators.md says more: element types, and what runs on kernels.");
  return {command, [as_json] { return list_operators(*as_json); }};
}

}  // namespace camshaft::tools

// camshaft operators: what models may use.
#include <fmt/format.h>

#include <memory>

#include "onnx/converters.h"
#include "tools/commands.h"
#include "tools/report.h"

namespace camshaft {

namespace {

int list_operators(bool as_json) {
  nlohmann::json json = nlohmann::json::array();
  for (const onnx::KnownOperator& op : onnx::known_operators()) {
    const std::string domain(op.domain.empty() ? "ai.onnx" : op.domain);
    json.push_back({{"domain", domain}, {"operator", std::string(op.op_type)}, {"since", op.since}});
    if (!as_json) fmt::print("{} {} since operator set {}\n", domain, op.op_type, op.since);
  }
  if (as_json) print_json(json);
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

}  // namespace camshaft

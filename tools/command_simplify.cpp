// camshaft simplify: a model in canonical form, as ONNX.
#include <fmt/format.h>

#include <memory>

#include "camshaft/simplify.hpp"
#include "tools/build_options.h"
#include "tools/commands.h"
#include "tools/open_engine.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/rewrite_report.h"

namespace camshaft::tools {

namespace {

struct SimplifyArguments : BuildArguments {
  std::string model, output;
  bool no_verify = false, external_data = false, json = false;
};

RewrittenFiles files_of(const SimplifyArguments& arguments) {
  return {arguments.model, arguments.output, !arguments.no_verify};
}

void print_simplify_summary(const SimplifyArguments& arguments, const RewriteReport& report) {
  print_sizes(files_of(arguments), report);
  print_verification(files_of(arguments), report);
}

void print_simplify_report_json(const SimplifyArguments& arguments, const RewriteReport& report) {
  print_json(to_json(files_of(arguments), report));
}

int simplify_command(const SimplifyArguments& arguments) {
  Progress progress;
  BuildOptions options = arguments.options(progress);
  options.set("verify", !arguments.no_verify);
  arguments.set_inputs(options);
  const NamedShapes shapes = parse_shapes(arguments.shapes);
  if (!shapes.empty()) options.add_profile(fixed_profile(shapes));
  if (Engine::is_engine_file(arguments.model))
    throw Error(ErrorCode::invalid_model,
                fmt::format("'{}' is an engine; simplify takes an ONNX model", arguments.model));
  check_distinct(arguments.model, arguments.output);
  check_distinct(arguments.model, arguments.output + ".data");  // where its tensors may go
  for (const std::string& read : arguments.inputs) check_distinct(read, arguments.output);
  check_writable(arguments.output);
  const RewriteReport report = simplify(arguments.model, arguments.output, options, arguments.external_data);
  progress.clear();
  (arguments.json ? print_simplify_report_json : print_simplify_summary)(arguments, report);
  return 0;
}

}  // namespace

Command add_simplify_command(CLI::App& app) {
  auto arguments = std::make_shared<SimplifyArguments>();
  CLI::App* command = app.add_subcommand("simplify", "Write a model back as ONNX in canonical form, and verify it");
  command->add_option("MODEL", arguments->model, "The ONNX file")->required();
  command->add_option("-o,--output", arguments->output, "The new ONNX file")->type_name("OUT.onnx")->required();
  command->add_flag(
      "--external-data", arguments->external_data,
      "Put tensors of at least 1 KiB into a file beside it (OUT.onnx.data), as models above 2 GiB do anyway");
  command->add_flag("--json", arguments->json, "Print the report as JSON");
  arguments->add_verification_to(*command, "Fix the inputs' shapes");
  command->add_flag("--no-verify", arguments->no_verify, "Do not compare the new model with the old one")
      ->group("Verification");
  command->footer(
      "Constants and shape arithmetic are folded, and what changes nothing is removed. The new model is of ONNX's\n"
      "operator set 21, or of the first one that has all it uses. An engine that is built of it is compared with the\n"
      "reference evaluation of the old model, on seeded inputs of several sizes or on given ones (--inputs); nothing "
      "is\n"
      "written where they differ.\n\n"
      "Examples:\n"
      "  camshaft simplify model.onnx -o simple.onnx\n"
      "  camshaft simplify model.onnx -o simple.onnx --shapes x:1x3x224x224");
  return {command, [arguments] { return simplify_command(*arguments); }};
}

}  // namespace camshaft::tools

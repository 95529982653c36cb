// camshaft report: a page to look at.
#include <fmt/format.h>

#include <memory>
#include <span>

#include "tools/atomic_file.h"
#include "tools/commands.h"
#include "tools/device_option.h"
#include "tools/input_options.h"
#include "tools/number_option.h"
#include "tools/open_engine.h"
#include "tools/page.h"
#include "tools/page_data.h"
#include "tools/progress.h"

namespace camshaft::tools {

namespace {

struct ReportArguments {
  std::string path, output, model, build_report, device, threads, duration, tolerance;
  bool no_run = false;
  InputOptions inputs;
  LimitOptions limits;
};

int write_report(const ReportArguments& arguments) {
  PageRequest request{arguments.path, arguments.model, arguments.build_report};
  request.measures = !arguments.no_run;
  request.threads = parse_threads(arguments.threads);
  request.seconds = parse_seconds(arguments.duration, "duration", 1);
  request.limits = arguments.limits;
  const GivenInputs given(arguments.inputs);
  for (const std::string& read : {arguments.path, arguments.model, arguments.build_report, arguments.inputs.archive})
    check_distinct(read, arguments.output);
  check_writable(arguments.output);
  Progress progress;
  const OpenedEngine opened = open_engine(arguments.path, arguments.device, request.threads, given.shapes(), progress,
                                          "measure", arguments.limits);
  if (opened.from_model && request.model.empty()) request.model = arguments.path;
  const auto precision = opened.engine.metadata().find("precision");
  const bool is_narrow = precision != opened.engine.metadata().end() && precision->second != "fp32";
  request.tolerance = parse_positive(arguments.tolerance, "tolerance", is_narrow ? 0.02 : 1e-4);
  const GivenInputs::Complete inputs = given.complete(opened.engine);
  const std::string html = page_html(page_data(request, opened, inputs.tensors, progress));
  AtomicFile file(arguments.output);
  file.write(std::as_bytes(std::span(html)));
  file.commit();
  progress.clear();
  fmt::print(
      "report    {}: {} layers{}\n", arguments.output, opened.engine.layers().size(),
      request.model.empty() ? "; --model MODEL.onnx adds the model's own graph and the error of each tensor" : "");
  return 0;
}

}  // namespace

Command add_report_command(CLI::App& app) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command =
      app.add_subcommand("report", "Write a page about an engine: graph, times, memory, tactics, errors");
  command->add_option("PATH", arguments->path, "An engine, or an ONNX model, which is then compiled in memory")
      ->required();
  command->add_option("-o,--output", arguments->output, "The page")->type_name("OUT.html")->required();
  command
      ->add_option(
          "--model", arguments->model,
          "The ONNX file that the engine was built of: shows it beside the layers, and the error of each tensor")
      ->type_name("MODEL.onnx");
  command
      ->add_option("--build-report", arguments->build_report,
                   "What `camshaft build --json` printed: shows how it was verified, and what precisions cost and gain")
      ->type_name("FILE");
  add_device_option(*command, arguments->device, run_device_help);
  command->add_option("--threads", arguments->threads, "Threads to run on (default: one for each core)")
      ->type_name("N");
  command->add_option("--duration", arguments->duration, "Measure for about this long (default: 1)")
      ->type_name("SECONDS");
  command->add_flag("--no-run", arguments->no_run, "Show what the file records alone: no times, no errors");
  command
      ->add_option("--tolerance", arguments->tolerance,
                   "Largest error of a tensor, as a part of its scale (default: 1e-4; 0.02 where precisions below fp32 "
                   "are allowed)")
      ->type_name("X");
  arguments->inputs.add_to(*command);
  arguments->limits.add_to(*command, "fold constants of a model, to measure kernels and to run it");
  command->footer(
      "The page is one file, for any browser, without a network. Times are measured on this machine by this command: "
      "an\n"
      "engine holds none but those of the tactics that its build measured.\n\n"
      "Examples:\n"
      "  camshaft report model.engine -o report.html\n"
      "  camshaft build model.onnx --json > build.json\n"
      "  camshaft report model.engine --model model.onnx --build-report build.json -o report.html");
  return {command, [arguments] { return write_report(*arguments); }};
}

}  // namespace camshaft::tools

// camshaft calibrate: the ranges that int8 needs, from data.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "camshaft/calibration.hpp"
#include "tools/calibration_arguments.h"
#include "tools/commands.h"
#include "tools/device_option.h"
#include "tools/interrupt.h"
#include "tools/limit_options.h"
#include "tools/number_option.h"
#include "tools/open_engine.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/shapes_option.h"
#include "tools/tensor_text.h"

namespace camshaft::tools {

namespace {

struct CalibrateArguments : CalibrationArguments {
  LimitOptions limits;
  std::string model, output, format = "json", device = "cpu", threads;
  std::vector<std::string> shapes;
  bool results = false, json = false;
};

void print_calibrate_summary(const CalibrateArguments& arguments, const CalibrationReport& report,
                             const CalibrationData& data) {
  size_t with_range = 0;
  for (const CalibratedTensor& tensor : report.tensors) with_range += tensor.has_range;
  fmt::print("model     {}\n", arguments.model);
  fmt::print(
      "ranges    {}: {} tensors, {}{}\n", arguments.output, with_range, report.method,
      report.method == "percentile" ? " " + (arguments.percentile.empty() ? "99.99" : arguments.percentile) : "");
  fmt::print("data      {}: {} sample{} in {} batch{}\n", arguments.data, report.samples,
             report.samples == 1 ? "" : "s", report.batches, report.batches == 1 ? "" : "es");
  if (!data.preparation().empty()) fmt::print("pictures  {}\n", data.preparation());
  fmt::print("time      build {}, read {}, run {} ({} a sample), choose {}\n", format_seconds(report.seconds_build),
             format_seconds(report.seconds_data), format_seconds(report.seconds_run),
             format_seconds(report.seconds_run / static_cast<double>(report.samples)),
             format_seconds(report.seconds_ranges));
  if (data.left_out() > 0)
    fmt::print("warning   the last {} sample{} too few for a batch and left out\n", data.left_out(),
               data.left_out() == 1 ? " was" : "s were");
  for (const std::string& warning : report.warnings) fmt::print("warning   {}\n", warning);
}

void print_calibrate_report_json(const CalibrateArguments& arguments, const CalibrationReport& report,
                                 const CalibrationData& data) {
  nlohmann::json tensors = nlohmann::json::array();
  for (const CalibratedTensor& t : report.tensors) {
    nlohmann::json one = {{"name", t.range.tensor},
                          {"count", t.count},
                          {"zeros", t.zeros},
                          {"nans", t.nans},
                          {"infinities", t.infinities}};
    if (t.has_range)
      one.update({{"min", t.range.min}, {"max", t.range.max}, {"seen_min", t.seen_min}, {"seen_max", t.seen_max}});
    tensors.push_back(std::move(one));
  }
  print_json({{"model", arguments.model},
              {"output", arguments.output},
              {"method", report.method},
              {"tensors", std::move(tensors)},
              {"samples", report.samples},
              {"batches", report.batches},
              {"left_out", data.left_out()},
              {"preparation", data.preparation()},
              {"seconds",
               {{"build", report.seconds_build},
                {"data", report.seconds_data},
                {"run", report.seconds_run},
                {"ranges", report.seconds_ranges}}},
              {"warnings", report.warnings}});
}

int calibrate_model(const CalibrateArguments& arguments) {
  if (Engine::is_engine_file(arguments.model))
    throw Error(
        ErrorCode::invalid_model,
        fmt::format("'{}' is an engine; calibrate takes the ONNX model that it is built from", arguments.model));
  if (arguments.output.empty()) throw Error(ErrorCode::invalid_argument, "-o: the path of the file to write is empty");
  check_distinct(arguments.model, arguments.output);
  check_distinct(arguments.data, arguments.output);
  check_writable(arguments.output);
  Progress progress;
  CalibrationOptions options;
  arguments.set(options);
  options.set("results", arguments.results).set("format", arguments.format).set("device", arguments.device);
  options.set("threads", parse_threads(arguments.threads)).set("tuning", "heuristic");
  arguments.limits.set(options);
  const NamedShapes shapes = parse_shapes(arguments.shapes);
  if (!shapes.empty()) options.add_profile(fixed_profile(shapes));
  options.set_progress(progress.callback()).set_cancellation(cancel_on_interrupt());
  CalibrationData data(arguments.data, arguments.data_options());
  for (const std::string& file : data.files()) check_distinct(file, arguments.output);
  arguments.check_fits(data);
  const CalibrationReport report = calibrate(
      arguments.model, options,
      [&](const std::vector<TensorInfo>& inputs, NamedTensors& batch) {
        progress.update("calibrating", data.fraction());
        return data.next(inputs, batch);
      },
      arguments.output);
  progress.clear();
  (arguments.json ? print_calibrate_report_json : print_calibrate_summary)(arguments, report, data);
  return 0;
}

}  // namespace

Command add_calibrate_command(CLI::App& app) {
  auto arguments = std::make_shared<CalibrateArguments>();
  CLI::App* command =
      app.add_subcommand("calibrate", "Run a model on data and write the ranges of its tensors, which int8 needs");
  command->add_option("MODEL", arguments->model, "The ONNX file")->required();
  const auto add = [&](const char* name, auto& target, const char* help, const char* type, const char* group) {
    return command->add_option(name, target, help)->type_name(type)->group(group);
  };
  arguments->add_to(*command);
  command->get_option("--data")->required();
  command->add_option("-o,--output", arguments->output, "The file to write the ranges to")
      ->type_name("FILE")
      ->required();
  add("--format", arguments->format, "Of the file: json (default), or tensorrt for a calibration cache of TensorRT's",
      "FORMAT", "Ranges");
  command
      ->add_flag("--results", arguments->results,
                 "Find ranges of convolutions' results, too, which `camshaft quantize` puts in steps for ONNX Runtime")
      ->group("Ranges");
  command->add_flag("--json", arguments->json, "Print the report as JSON");
  add_device_option(*command, arguments->device, "What to run on: cpu (default), cuda, the first GPU, or cuda:N");
  arguments->limits.add_to(*command, "fold constants and run once");
  command->add_option("--threads", arguments->threads, "Threads to run with (default: one for each core)")
      ->type_name("N");
  add("--shapes", arguments->shapes, "Run with these shapes", "NAME:SHAPE[,NAME:SHAPE…]", "Data")
      ->allow_extra_args(false);
  command->footer(
      "Some hundred samples that are like what the model will see are usual. Arrays have an axis of samples in front, "
      "or "
      "are\n"
      "one sample. Where channels of pictures are, first or last, the model says.\n\n"
      "Examples:\n"
      "  camshaft calibrate resnet50.onnx --data pictures/ --resize 256 --mean 0.485,0.456,0.406 --std "
      "0.229,0.224,0.225 -o resnet50.ranges\n"
      "  camshaft calibrate bert.onnx --data batches/ --method percentile -o bert.ranges");
  return {command, [arguments] { return calibrate_model(*arguments); }};
}

}  // namespace camshaft::tools

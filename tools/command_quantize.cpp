// camshaft quantize: a model with QuantizeLinear and DequantizeLinear, as ONNX.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>

#include "camshaft/quantize.hpp"
#include "tools/atomic_file.h"
#include "tools/build_options.h"
#include "tools/calibration_arguments.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/metric_script.h"
#include "tools/number_option.h"
#include "tools/open_engine.h"
#include "tools/precision_curve.h"
#include "tools/precision_search.h"
#include "tools/progress.h"
#include "tools/quantization_text.h"
#include "tools/report.h"
#include "tools/rewrite_report.h"
#include "tools/temporary_folder.h"
#include "tools/tensor_text.h"

namespace camshaft::tools {

namespace {

constexpr const char* default_drop = "1%";

struct QuantizeArguments {
  BuildArguments build;
  CalibrationArguments calibration;
  std::string model, output, metric, max_drop, curve;
  bool no_results = false, no_verify = false, external_data = false, json = false;

  RewrittenFiles files() const { return {model, output, !no_verify}; }
  std::string precision() const { return build.fp8 ? "fp8" : "int8"; }
};

/// The ranges as a file: the given one, or what comes of the data.
class Ranges {
 public:
  Ranges(const QuantizeArguments& arguments, const NamedShapes& shapes, Progress& progress)
      : file_(arguments.build.calibration) {
    if (!file_.empty()) return;
    folder_.emplace();
    file_ = folder_->path() + "/ranges";
    CalibrationOptions options;
    arguments.calibration.set(options);
    options.set("results", !arguments.no_results && !arguments.build.fp8);
    options.set("threads", parse_threads(arguments.build.threads)).set("tuning", "heuristic");
    arguments.build.limits.set(options);
    if (!shapes.empty()) options.add_profile(fixed_profile(shapes));
    options.set_progress(progress.callback()).set_cancellation(cancel_on_interrupt());
    CalibrationData data(arguments.calibration.data, arguments.calibration.data_options());
    report_ = calibrate(
        arguments.model, options,
        [&](const std::vector<TensorInfo>& inputs, NamedTensors& batch) {
          progress.update("calibrating", data.fraction());
          return data.next(inputs, batch);
        },
        file_);
    preparation_ = data.preparation();
  }

  const std::string& file() const { return file_; }

  void print(const QuantizeArguments& arguments) const {
    if (!report_) {
      fmt::print("ranges    {}\n", file_);
      return;
    }
    fmt::print("ranges    of {} samples of {}, {}\n", report_->samples, arguments.calibration.data, report_->method);
    if (!preparation_.empty()) fmt::print("pictures  {}\n", preparation_);
    for (const std::string& warning : report_->warnings) fmt::print("warning   {}\n", warning);
  }
  nlohmann::json json() const {
    if (!report_) return {{"file", file_}};
    return {{"method", report_->method},
            {"samples", report_->samples},
            {"preparation", preparation_},
            {"warnings", report_->warnings}};
  }

 private:
  std::optional<TemporaryFolder> folder_;
  std::string file_, preparation_;
  std::optional<CalibrationReport> report_;
};

/// What came of --metric.
struct Searched {
  ScoreDrop most;
  PrecisionSearch search;
};

void print_search(const Searched& searched) {
  const PrecisionSearch& search = searched.search;
  for (const PrecisionPoint& point : search.points)
    fmt::print("metric    {:g} with {} of {} layers in floating point, {} a run{}\n", point.score, point.float_layers,
               search.layers.size(), format_seconds(point.seconds),
               point.float_layers == search.float_layers ? "  <- chosen" : "");
  std::vector<std::string> kept;
  for (size_t l = 0; l < search.float_layers; ++l) kept.push_back(search.layers[l].layer);
  if (!kept.empty()) fmt::print("metric    most sensitive: {}\n", format_some(kept));
}

void print_quantize_summary(const QuantizeArguments& arguments, const Ranges& ranges,
                            const std::optional<Searched>& searched, const QuantizeReport& report) {
  print_sizes(arguments.files(), report);
  ranges.print(arguments);
  if (searched) print_search(*searched);
  print_quantization(report.quantized_layers);
  if (report.results_in_steps > 0)
    fmt::print("precision results of {} convolutions that no such layer reads in steps of u8\n",
               report.results_in_steps);
  if (!report.results_without_range.empty())
    fmt::print(
        "precision results of {} convolutions without a range: ONNX Runtime computes these convolutions in fp32{}\n",
        report.results_without_range.size(),
        arguments.build.calibration.empty() ? "" : " (calibrate --results finds ranges)");
  print_verification(arguments.files(), report);
}

void print_quantize_report_json(const QuantizeArguments& arguments, const Ranges& ranges,
                                const std::optional<Searched>& searched, const QuantizeReport& report) {
  nlohmann::json json = to_json(arguments.files(), report);
  json["ranges"] = ranges.json();
  if (searched) json["metric"] = to_json(searched->search);
  json["results_in_steps"] = report.results_in_steps;
  json["results_without_range"] = report.results_without_range;
  json["quantized_layers"] = to_json(report.quantized_layers);
  print_json(json);
}

/// Some batches, evenly spread over the data.
std::vector<NamedTensors> batches_of(const QuantizeArguments& arguments, const std::vector<TensorInfo>& inputs) {
  constexpr size_t most_batches = 16;
  CalibrationData data(arguments.calibration.data, arguments.calibration.data_options());
  std::vector<NamedTensors> batches;
  size_t step = 1, index = 0;
  for (NamedTensors batch; data.next(inputs, batch); batch.clear(), ++index) {
    if (index % step != 0) continue;
    batches.emplace_back();
    for (const auto& [name, tensor] : batch) batches.back().emplace_back(name, tensor.copy());
    if (batches.size() < most_batches) continue;
    // Every second one: those at multiples of twice the step.
    for (size_t kept = 1; kept < most_batches / 2; ++kept) batches[kept] = std::move(batches[2 * kept]);
    batches.resize(most_batches / 2);
    step *= 2;
  }
  return batches;
}

Searched search(const QuantizeArguments& arguments, const std::string& ranges, const BuildOptions& options,
                Progress& progress) {
  const ScoreDrop most(arguments.max_drop.empty() ? default_drop : arguments.max_drop);
  const PrecisionSearchOptions what{
      arguments.model, ranges, options, arguments.precision(),
      [&](const std::vector<TensorInfo>& inputs) { return batches_of(arguments, inputs); }};
  Searched searched{most,
                    search_precisions(what, MetricScript(arguments.metric, cancel_on_interrupt()), most, progress)};
  const std::vector<PrecisionPoint>& points = searched.search.points;
  if (searched.search.float_layers == searched.search.layers.size())
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("with any layer in {0} the score falls by more than {1}: it is {2:g} in floating point and {3:g} "
                    "with one layer in {0}; allow more (--max-drop), or keep the model as it is",
                    arguments.precision(), most.text(), points.back().score, points[points.size() - 2].score));
  return searched;
}

void write_curve(const QuantizeArguments& arguments, const Searched& searched) {
  AtomicFile file(arguments.curve);
  const std::string text = arguments.curve.ends_with(".json")
                               ? to_json(searched.search).dump(1) + "\n"
                               : precision_curve(searched.search, searched.most, arguments.model);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

void check_metric_options(const QuantizeArguments& arguments) {
  if (arguments.metric.empty() && !(arguments.max_drop.empty() && arguments.curve.empty()))
    throw Error(ErrorCode::invalid_argument, fmt::format("{} is for a search that --metric judges",
                                                         arguments.curve.empty() ? "--max-drop" : "--curve"));
  if (arguments.metric.empty()) return;
  if (arguments.calibration.data.empty())
    throw Error(ErrorCode::invalid_argument,
                "--metric needs --data, on which the layers' sensitivity is measured; ranges are found from it, too");
  if (!arguments.curve.empty() && !arguments.curve.ends_with(".svg") && !arguments.curve.ends_with(".json"))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--curve writes .svg or .json, and '{}' is neither", arguments.curve));
  ScoreDrop(arguments.max_drop.empty() ? default_drop : arguments.max_drop);
  if (!arguments.curve.empty()) check_writable(arguments.curve);
}

int quantize_command(const QuantizeArguments& arguments) {
  if (arguments.build.calibration.empty() && arguments.calibration.data.empty())
    throw Error(ErrorCode::invalid_argument,
                "quantising needs ranges: give a file of them (--calibration FILE), or data to find them from (--data "
                "PATH)");
  if (!arguments.build.calibration.empty() && !arguments.calibration.data.empty())
    throw Error(ErrorCode::invalid_argument, "give either ranges (--calibration) or data to find them from (--data)");
  check_metric_options(arguments);
  Progress progress;
  BuildOptions options = arguments.build.options(progress);
  options.set("verify", !arguments.no_verify);
  arguments.build.set_inputs(options);
  const NamedShapes shapes = parse_shapes(arguments.build.shapes);
  if (!shapes.empty()) options.add_profile(fixed_profile(shapes));
  if (Engine::is_engine_file(arguments.model))
    throw Error(ErrorCode::invalid_model,
                fmt::format("'{}' is an engine; quantize takes an ONNX model", arguments.model));
  std::vector<std::string> all_read = arguments.build.inputs;
  all_read.insert(all_read.end(), {arguments.model, arguments.build.calibration, arguments.calibration.data});
  for (const std::string& read : all_read) check_distinct(read, arguments.output);
  check_writable(arguments.output);
  const Ranges ranges(arguments, shapes, progress);
  std::optional<Searched> searched;
  if (!arguments.metric.empty()) {
    searched = search(arguments, ranges.file(), options, progress);
    for (size_t l = 0; l < searched->search.float_layers; ++l)
      options.set("layer-precisions", searched->search.layers[l].layer + ":fp32");
    if (!arguments.curve.empty()) write_curve(arguments, *searched);
  }
  options.set("calibration", ranges.file());
  const QuantizeReport report = quantize(arguments.model, arguments.output, options, arguments.external_data);
  progress.clear();
  (arguments.json ? print_quantize_report_json : print_quantize_summary)(arguments, ranges, searched, report);
  return 0;
}

}  // namespace

Command add_quantize_command(CLI::App& app) {
  auto arguments = std::make_shared<QuantizeArguments>();
  CLI::App* command = app.add_subcommand(
      "quantize", "Write a model with QuantizeLinear and DequantizeLinear and weights of int8 or fp8, and verify it");
  command->add_option("MODEL", arguments->model, "The ONNX file")->required();
  command->add_option("-o,--output", arguments->output, "The new ONNX file")->type_name("OUT.onnx")->required();
  command
      ->add_option("--calibration", arguments->build.calibration,
                   "The ranges of the model's tensors, see `camshaft calibrate`")
      ->type_name("FILE");
  command->add_flag("--fp8", arguments->build.fp8,
                    "To 8-bit floats (E4M3) in place of int8, for GPUs that have products of them");
  command->add_flag(
      "--external-data", arguments->external_data,
      "Put tensors of at least 1 KiB into a file beside it (OUT.onnx.data), as models above 2 GiB do anyway");
  command->add_flag("--json", arguments->json, "Print the report as JSON");
  arguments->calibration.add_to(*command);
  arguments->build.add_layer_precisions_to(
      *command,
      "Which layers are to be in int8 (or fp8), and which stay in floating point (fp32); * in a name stands for any\n"
      "text");
  arguments->build.add_verification_to(*command, "Fix the inputs' shapes");
  command
      ->add_option("--metric", arguments->metric,
                   "A script (.py) or command that gets an engine file and prints a score: the most sensitive layers\n"
                   "stay in floating point until it is good enough")
      ->type_name("COMMAND")
      ->group("Accuracy");
  command
      ->add_option("--max-drop", arguments->max_drop,
                   fmt::format("How far the score may fall below that in floating point: 0.5%, or 0.002 (default: {})",
                               default_drop))
      ->type_name("DROP")
      ->group("Accuracy");
  command->add_option("--curve", arguments->curve, "Write the scores and times of what was tried, as a picture or JSON")
      ->type_name("FILE.svg|FILE.json")
      ->group("Accuracy");
  command
      ->add_flag("--no-results", arguments->no_results,
                 "With --data: no steps for results of convolutions that are added up or activated in floating point: "
                 "faster and more exact here, slower in ONNX Runtime")
      ->group("Ranges");
  command->add_flag("--no-verify", arguments->no_verify, "Do not compare an engine of the file with what was quantised")
      ->group("Verification");
  command->footer(
      "The file is for every runtime that computes quantised ONNX models: activations in steps of u8, weights in "
      "steps\n"
      "of i8 for each output channel, or with --fp8 both in E4M3. It is verified to compute what was quantised; how "
      "far\n"
      "that is from the model before, `camshaft verify` and your own data say.\n\n"
      "Examples:\n"
      "  camshaft quantize resnet50.onnx --calibration resnet50.ranges -o resnet50.int8.onnx\n"
      "  camshaft quantize ocr.onnx --data lines/ --metric read_lines.py --max-drop 0.5% --curve ocr.svg -o "
      "ocr.int8.onnx\n"
      "  camshaft quantize bert.onnx --data batches/ --method percentile --layer-precisions /classifier/*:fp32 -o "
      "bert.int8.onnx");
  return {command, [arguments] { return quantize_command(*arguments); }};
}

}  // namespace camshaft::tools

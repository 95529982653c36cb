#include "builder/rewrite_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/available_cores.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/work_scope.h"
#include "builder/build_budget.h"
#include "builder/build_inputs.h"
#include "builder/precision.h"
#include "builder/verdict.h"
#include "builder/verify_engine.h"
#include "onnx/export/export_model.h"
#include "onnx/export/model_file.h"
#include "onnx/importer.h"
#include "onnx/proto_reader.h"
#include "onnx/proto_writer.h"
#include "optimize/pass.h"
#include "optimize/pipeline.h"
#include "runtime/backends.h"

namespace camshaft {

namespace {

constexpr uint64_t least_external = 1024;

uint64_t bytes_of(const onnx::ModelProto& model) {
  uint64_t bytes = 0;
  for (const onnx::TensorProto& tensor : model.graph.initializers)
    if (tensor.external) bytes += tensor.external->length.value_or(0);
  return bytes;
}

/// What an engine on this device makes of the model: on a CPU it computes halves in f32.
Graph settled(Graph meaning, const Precision& precision, const Backend& backend, const BuildOptions& options,
              ThreadPool& pool) {
  PassContext context{.pool = pool, .cancellation = options.cancellation};
  context.storage = precision.storage;
  context.rounding = precision.rounding;
  run_passes(meaning, backend.passes(precision.storage, precision.rounding).meaning, context);
  return meaning;
}

bool has_values_of(const Graph& graph, DType dtype) {
  return std::any_of(graph.values.begin(), graph.values.end(), [&](const Value& v) { return v.type.dtype == dtype; });
}

/// Judges an engine of the new model by a graph of what it means. Of halves one that rounds each result to these says
/// too little or too much, where an engine rounds none and what is folded has fewer to round: then the same in f32, as
/// which it is computed, decides. The new model's constants are halves, so that it is judged as an engine of halves is.
void verify(const onnx::ModelProto& written, const Graph& meaning, const ModelRewrite& rewrite,
            const BuildOptions& options, ThreadPool& pool, RewriteReport& report) {
  BuildOptions build = options;
  build.verify = false;
  build.int8 = build.fp8 = build.best = false;
  build.calibration.clear();
  build.layer_precisions.clear();
  build.tuning = Tuning::heuristic;
  const std::string bytes = model_bytes(written);
  const Engine engine = Builder(build).build(
      MappedFile::from_bytes(std::as_bytes(std::span(bytes)), fmt::format("the {} model", rewrite.done)), "");
  // Where a device has no products of 8-bit floats it computes what is quantised to them as exactly as all else.
  const std::shared_ptr<const Backend> backend = find_backend(options.device);
  BuildOptions judged = with_used_precisions(options, choose_precision(options, *backend));
  judged.fp8 = judged.fp8 && backend->gains_from(DType::f8e4m3);
  VerifyOptions wanted;
  wanted.tolerance = judged.effective_tolerance();
  wanted.sensitivity_above = wanted.tolerance;
  wanted.excused = usually_excused * std::min(1.0, wanted.tolerance / judged.default_tolerance());
  wanted.usual_tolerance = judged.default_tolerance();
  wanted.seed = options.seed;
  wanted.seconds = options.verify_seconds;
  wanted.cancellation = options.cancellation;
  wanted.inputs = sample_options(options).inputs;
  VerifyResult result = verify_engine(meaning, engine, wanted, pool);
  if (const bool has_bf16 = has_values_of(meaning, DType::bf16);
      (!result.passed || !result.unverified.empty()) && (has_bf16 || has_values_of(meaning, DType::f16))) {
    (has_bf16 ? judged.bf16 : judged.fp16) = true;
    wanted.usual_tolerance = judged.default_tolerance();
    wanted.tolerance = wanted.sensitivity_above = judged.effective_tolerance();
    wanted.excused = usually_excused * std::min(1.0, wanted.tolerance / wanted.usual_tolerance);
    wanted.rounding_noise = Precision{has_bf16 ? DType::bf16 : DType::f16}.noise();
    result = verify_engine(settled(meaning, choose_precision(build, *backend), *backend, options, pool), engine, wanted,
                           pool);
  }
  report.verification = result.outputs;
  report.samples = result.samples;
  report.not_verified = not_verified(result);
  if (!result.unverified.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the {} model cannot be verified: {}. Give real inputs (--inputs), or shapes that fit "
                            "(--shapes), or go without verification (--no-verify)",
                            rewrite.done, result.unverified));
  if (!result.passed)
    throw Error(ErrorCode::verification_failed, failure_message(result, wanted.tolerance, wanted.excused));
}

}  // namespace

void rewrite_model(const std::filesystem::path& model, const std::filesystem::path& output, const BuildOptions& options,
                   bool external_data, const ModelRewrite& rewrite, RewriteReport& report) {
  report = {};
  if (!options.lora.empty())
    throw Error(ErrorCode::invalid_argument, "adapters (lora) are of an engine: give them when it is built");
  const auto progress = [&](std::string_view stage, double fraction) {
    options.cancellation.check(rewrite.doing);
    if (options.progress) options.progress(stage, fraction);
  };
  ThreadPool pool(options.threads > 0 ? options.threads : available_cores());
  const WorkScope cancellable(options.cancellation);
  progress("reading", 0);
  const onnx::ModelProto read = onnx::read_model(model);
  const onnx::ImportedModel original = onnx::import_model(read, import_options(options.profiles));
  report.nodes_before = original.model_nodes;
  report.opset_before = original.opset;
  report.bytes_before = std::filesystem::file_size(model) + bytes_of(read);
  const std::shared_ptr<Budget> budget = make_budget(options, original.graph);
  const WorkScope budgeted(options.cancellation, budget);
  if (options.verify) check_operations(original.graph, options, *budget);

  progress(rewrite.doing, 0.2);
  Graph graph = original.graph;
  const Graph meaning = rewrite.run(graph, {.pool = pool, .cancellation = options.cancellation});
  const onnx::OriginalModel kept{read, original.graph};
  onnx::ModelProto written = onnx::export_model(graph, {.producer_version = CAMSHAFT_VERSION,
                                                        .metadata = original.metadata,
                                                        .original = rewrite.keeps_operators ? &kept : nullptr});
  if (rewrite.settle) rewrite.settle(written);
  report.nodes = static_cast<int64_t>(written.graph.nodes.size());
  report.opset = written.opsets.at("");
  if (options.verify) {
    progress("verifying", 0.5);
    verify(written, meaning, rewrite, options, pool, report);
  }
  progress("writing", 0.9);
  onnx::ModelFileOptions file;
  if (external_data) file.external_from = least_external;
  report.bytes = onnx::write_model(written, output, file);
  progress("done", 1);
}

}  // namespace camshaft

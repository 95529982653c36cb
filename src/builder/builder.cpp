#include "builder/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "backends/cpu/device.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/out_of_memory.h"
#include "builder/build_tuning.h"
#include "builder/compile_graph.h"
#include "builder/find_beyond_f16.h"
#include "builder/verdict.h"
#include "builder/verify_engine.h"
#include "compile/tune/settle_chains.h"
#include "onnx/importer.h"
#include "onnx/proto_reader.h"
#include "optimize/pipeline.h"
#include "runtime/backends.h"
#include "runtime/engine_impl.h"
#include "runtime/tensor_view.h"

namespace camshaft {

namespace {

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void keep_debug_tensors(Graph& graph, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::find(graph.output_names.begin(), graph.output_names.end(), name) != graph.output_names.end()) continue;
    const auto it =
        std::find_if(graph.values.begin(), graph.values.end(), [&](const Value& v) { return v.name == name; });
    if (it == graph.values.end())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the model has no tensor named '{}' to keep for debugging", name));
    graph.add_output(name, static_cast<ValueId>(it - graph.values.begin()));
  }
}

bool has_deviation(const Engine& engine, Deviation deviation) {
  const std::vector<PlanStep>& steps = engine.impl()->plan.steps;
  return std::any_of(steps.begin(), steps.end(), [&](const PlanStep& step) { return step.deviation >= deviation; });
}

/// What tensors are stored as within the model.
DType storage_type(const BuildOptions& options, const Backend& backend) {
  if (options.fp16 && backend.gains_from(DType::f16)) return DType::f16;
  if (options.bf16 && backend.gains_from(DType::bf16)) return DType::bf16;
  return DType::f32;
}

/// What products of f32 may round their operands to. Where tensors are stored in halves anyhow, --bf16 says nothing of
/// those that stay f32.
ops::Rounding rounding_of(const BuildOptions& options, const Backend& backend, DType storage) {
  if (options.bf16 && storage == DType::f32 && backend.gains_from_rounding(ops::Rounding::bf16))
    return ops::Rounding::bf16;
  if (options.tf32 && backend.gains_from_rounding(ops::Rounding::tf32)) return ops::Rounding::tf32;
  return ops::Rounding::none;
}

void warn_of_unused(const BuildOptions& options, const Backend& backend, const PassContext& passes) {
  const bool stores = passes.storage != DType::f32;
  if ((options.fp16 || options.bf16) && !stores && passes.rounding != ops::Rounding::bf16)
    log_warning(fmt::format("{} has no kernels that are faster in {}: the engine is built in fp32",
                            backend.device().name, options.fp16 ? "fp16" : "bf16"));
  if (options.tf32 && passes.rounding == ops::Rounding::bf16)
    log_warning("products of fp32 take operands rounded to bf16, which is faster here than TF32");
  else if (options.tf32 && passes.rounding != ops::Rounding::tf32)
    log_warning(
        fmt::format("{} has no kernels that are faster in TF32: products of fp32 stay exact", backend.device().name));
}

/// What the engine may compute in, for people.
std::string precision_text(const PassContext& passes) {
  std::string text = "fp32";
  if (passes.storage != DType::f32) text += passes.storage == DType::f16 ? ", fp16" : ", bf16";
  if (passes.rounding != ops::Rounding::none) text += passes.rounding == ops::Rounding::bf16 ? ", bf16" : ", tf32";
  return text;
}

/// What it rounds to, as a part of each number.
double rounding_noise(const PassContext& passes) {
  if (passes.storage == DType::bf16 || passes.rounding == ops::Rounding::bf16) return 0x1p-8;
  if (passes.storage == DType::f16 || passes.rounding == ops::Rounding::tf32) return 0x1p-11;
  return 0x1p-22;
}

SampleOptions sample_options(const BuildOptions& options) {
  SampleOptions sample;
  sample.seed = options.seed;
  for (const auto& [name, view] : options.verification_inputs) sample.inputs[name] = copy_of(view);
  sample.cancellation = options.cancellation;
  return sample;
}

std::map<std::string, std::string> metadata_of(const onnx::ImportedModel& imported, const ModelIdentity& model,
                                               size_t model_bytes, const DeviceInfo& device) {
  std::map<std::string, std::string> metadata = {
      {"camshaft", CAMSHAFT_VERSION},
      {"model", model.name},
      {"model_bytes", std::to_string(model_bytes)},
      {"model_xxh3", model.hash},
      {"producer", imported.producer},
      {"opset", std::to_string(imported.opset)},
      {"device", device.kind + " " + device.isa},
      {"code", device.code},
  };
  for (const auto& [key, value] : imported.metadata) metadata["model." + key] = value;
  return metadata;
}

}  // namespace

Engine Builder::build(const std::string& model_path) {
  const std::filesystem::path folder = std::filesystem::path(model_path).parent_path();
  return build(MappedFile::open(model_path), folder.empty() ? "." : folder.string());
}

Engine Builder::build(std::shared_ptr<const MappedFile> model, const std::string& folder) {
  return name_out_of_memory([&] { return fmt::format("out of memory while building '{}'", model->path()); },
                            [&] { return build_checked(model, folder); });
}

Engine Builder::build_checked(std::shared_ptr<const MappedFile> file, const std::string& folder) {
  report_ = {};
  const auto progress = [&](std::string_view stage, double fraction) {
    options_.cancellation.check("building");
    if (options_.progress) options_.progress(stage, fraction);
  };
  if (!std::isfinite(options_.verify_seconds) || options_.verify_seconds < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("verification cannot take {} seconds; give 0 or more", options_.verify_seconds));
  if (options_.threads < 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("a build cannot have {} threads", options_.threads));
  check_tuning_options(options_);
  const std::shared_ptr<const Backend> backend = find_backend(options_.device);
  const std::string warning = options_.device == "cpu" ? cpu::isa_warning(backend->device().isa) : "";
  if (!warning.empty()) log_warning(warning);
  ThreadPool pool(options_.threads > 0 ? options_.threads : std::max(1, backend->device().cores));

  Stopwatch watch;
  progress("reading", 0);
  onnx::ImportOptions import;
  for (const Profile& profile : options_.profiles)
    for (const auto bound : {&ShapeRange::min, &ShapeRange::opt, &ShapeRange::max})
      for (auto& shapes = import.shapes.emplace_back(); const auto& [name, range] : profile.inputs)
        shapes[name] = range.*bound;
  onnx::ImportedModel imported =
      onnx::import_model(onnx::read_model(file->bytes(), file->path(), file, folder), import);
  keep_debug_tensors(imported.graph, options_.debug_tensors);
  PassContext context{.pool = pool};
  context.storage = storage_type(options_, *backend);
  context.rounding = rounding_of(options_, *backend, context.storage);
  context.cancellation = options_.cancellation;
  PassRuns runs;
  runs.most = options_.stop_after_pass;
  context.runs = &runs;
  const BackendPasses passes = backend->passes(context.storage, context.rounding);
  check_order(passes);
  // Before the reference is taken, which is to compute as the engine does: what f16 loses beyond its range is no error.
  run_passes(imported.graph, passes.meaning, context);
  for (const Profile& profile : options_.profiles) check_profile(imported.graph, profile);
  report_.model_nodes = imported.model_nodes;
  const ModelIdentity model{std::filesystem::path(file->path()).filename().string(), to_hex(hash64(file->bytes()))};
  BuildTuning tuning(options_, model, *backend, pool);
  report_.seconds_import = watch.lap();

  progress("optimising", 0.1);
  Graph graph = imported.graph;
  warn_of_unused(options_, *backend, context);
  CompileOptions compile;
  context.notes = &compile.notes;
  run_passes_with_branches(graph, passes.form, context);
  std::set<std::string> too_large;
  if (context.storage == DType::f16 && options_.verify) {
    progress("looking for what fp16 cannot hold", 0.2);
    too_large = find_beyond_f16(imported.graph, graph, sample_options(options_), pool);
    context.keep_f32 = &too_large;
  }
  std::set<std::string> kept = too_large;
  context.kept_constants = &kept;
  run_passes(graph, passes.precision, context);
  report_.passes = runs.names;
  report_.kept_f32.assign(kept.begin(), kept.end());
  report_.seconds_optimize = watch.lap();

  compile.profiles = options_.profiles;
  compile.cancellation = options_.cancellation;
  compile.metadata = metadata_of(imported, model, file->size(), backend->device());
  compile.metadata["tuning"] = tuning.summary();
  compile.metadata["precision"] = precision_text(context);
  SymbolBindings optimum;
  if (!options_.profiles.empty()) optimum = bind_profile(graph, options_.profiles.front());
  std::vector<TacticDecision> decisions;
  const auto compiled = [&](Deviation most) {
    progress("tuning", 0.3);
    decisions = tuning.choose(graph, optimum, most);
    report_.seconds_tune += watch.lap();
    progress("compiling", 0.5);
    SettledGraph settled = settle_chains(graph, decisions);
    CompileOptions own = compile;
    own.most_deviation = most;
    own.decisions = std::move(settled.decisions);
    for (auto& [name, notes] : settled.notes) own.notes[name].insert(own.notes[name].end(), notes.begin(), notes.end());
    Engine engine = compile_graph(std::move(settled.graph), backend, own);
    report_.seconds_compile += watch.lap();
    return engine;
  };
  // Only what is checked may round more than it must; what is locked was checked by the build that wrote the lock file.
  Engine engine = compiled(options_.verify || tuning.is_locked() ? Deviation::rounding : Deviation::specials);

  if (options_.verify) {
    VerifyOptions verify;
    verify.tolerance = options_.effective_tolerance();
    verify.rounding_noise = rounding_noise(context);
    report_.rounding_noise = verify.rounding_noise;
    verify.seed = options_.seed;
    verify.seconds = options_.verify_seconds;
    KnownSamples known;
    verify.known = &known;
    verify.cancellation = options_.cancellation;
    verify.inputs = sample_options(options_).inputs;
    const auto verified = [&] {
      progress("verifying", 0.6);
      verify.sensitivity_above =
          options_.effective_tolerance() * (has_deviation(engine, Deviation::rounding) ? approximate_share : 1);
      VerifyResult result = verify_engine(imported.graph, engine, verify, pool);
      report_.seconds_verify += watch.lap();
      return result;
    };
    VerifyResult result = verified();
    const auto refuse_beyond = [&](Deviation most) {
      report_.approximate_refused = true;
      engine = compiled(most);
      result = verified();
    };
    const bool may_refuse = !tuning.is_locked();
    if (may_refuse && has_deviation(engine, Deviation::rounding) && !has_margin(result, verify.tolerance))
      refuse_beyond(Deviation::specials);
    if (may_refuse && has_deviation(engine, Deviation::specials) && result.unverified.empty() && !result.passed)
      refuse_beyond(Deviation::none);
    report_.verification = result.outputs;
    report_.samples = result.samples;
    report_.not_verified = not_verified(result);
    if (4 * result.sensitivity > options_.effective_tolerance()) report_.sensitivity = result.sensitivity;
    report_.judged_tensors = result.by_layers ? result.layers.judged : 0;
    report_.undecided_tensors = result.layers.undecided;
    report_.layers_error = result.layers.worst;
    if (!result.unverified.empty())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the engine cannot be verified: {}. Give real inputs (--inputs), or shapes that fit "
                              "(--shapes), or build without verification (--no-verify)",
                              result.unverified));
    if (!result.passed)
      throw Error(ErrorCode::verification_failed, failure_message(result, options_.effective_tolerance()));
    for (const std::string& text : report_.not_verified) log_warning("not verified: " + text);
  }
  report_.layers = static_cast<int64_t>(engine.impl()->plan.steps.size());
  tuning.report(report_);
  tuning.write_lock(graph, optimum, decisions);
  progress("done", 1);
  return engine;
}

}  // namespace camshaft

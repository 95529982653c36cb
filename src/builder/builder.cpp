#include "builder/builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "backends/cpu/device.h"
#include "base/format_bytes.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/out_of_memory.h"
#include "base/work_scope.h"
#include "builder/add_lora.h"
#include "builder/build_budget.h"
#include "builder/build_inputs.h"
#include "builder/build_tuning.h"
#include "builder/choose_layers.h"
#include "builder/compile_graph.h"
#include "builder/model_types.h"
#include "builder/optimize_model.h"
#include "builder/precision_gains.h"
#include "builder/refittable_build.h"
#include "builder/sample_inputs.h"
#include "builder/unmet_rules.h"
#include "builder/verdict.h"
#include "builder/verify_engine.h"
#include "builder/verify_plugins.h"
#include "compile/tune/settle_chains.h"
#include "ir/plugin_detour.h"
#include "onnx/hoist_weights.h"
#include "onnx/importer.h"
#include "onnx/proto_reader.h"
#include "onnx/proto_writer.h"
#include "reference/plugin_run.h"
#include "runtime/adapters.h"
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

// Gives the names that became further outputs.
std::vector<std::string> keep_debug_tensors(Graph& graph, const std::vector<std::string>& names) {
  std::vector<std::string> kept;
  for (const std::string& name : names) {
    if (std::find(graph.output_names.begin(), graph.output_names.end(), name) != graph.output_names.end()) continue;
    const auto it =
        std::find_if(graph.values.begin(), graph.values.end(), [&](const Value& v) { return v.name == name; });
    if (it == graph.values.end())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the model has no tensor named '{}' to keep for debugging", name));
    graph.add_output(name, static_cast<ValueId>(it - graph.values.begin()));
    kept.push_back(name);
  }
  return kept;
}

bool has_deviation(const Engine& engine, Deviation deviation) {
  const std::vector<PlanStep>& steps = engine.impl()->plan.steps;
  return std::any_of(steps.begin(), steps.end(), [&](const PlanStep& step) { return step.deviation >= deviation; });
}

// At the sizes that kernels are chosen for.
std::vector<Tensor> inputs_to_measure(const Graph& model, const BuildOptions& options, const SymbolBindings& optimum) {
  std::map<std::string, Dims> given;
  for (const auto& [name, view] : options.verification_inputs) given[name] = copy_of(view).dims();
  const std::vector<Dims> shapes = choose_input_shapes(model, given, optimum);
  std::vector<Tensor> inputs = sample_inputs(model, shapes, options.seed);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const auto it = options.verification_inputs.find(model.value(model.inputs[i]).name);
        it != options.verification_inputs.end())
      inputs[i] = copy_of(it->second);
  return inputs;
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

std::string names_of(const std::vector<onnx::LoraAdapter>& adapters) {
  std::vector<std::string> names;
  for (const onnx::LoraAdapter& adapter : adapters) names.push_back(adapter.name);
  return join_adapters(names);
}

}  // namespace

Engine Builder::build(const std::string& model_path) {
  const std::filesystem::path folder = std::filesystem::path(model_path).parent_path();
  return build(MappedFile::open(model_path), folder.empty() ? "." : folder.string());
}

/// A model, and what it is known by.
struct Builder::Source {
  onnx::ModelProto model;
  ModelIdentity identity;
  size_t bytes = 0;

  /// Of a model whose weights are replaced later: other ones make it no other model.
  void identify_without_weights() {
    onnx::hoist_weights(model);
    const std::string rest = bytes_without_weights(model);
    identity.hash = to_hex(hash64(rest));
    // A refit does not know what file its weights were in: the engine names the model as the model itself does.
    identity.name = model.graph.name;
    bytes = rest.size();
  }
};

Engine Builder::build(std::shared_ptr<const MappedFile> model, const std::string& folder) {
  const auto read = [&] {
    Source source{onnx::read_model(model->bytes(), model->path(), model, folder),
                  {std::filesystem::path(model->path()).filename().string(), ""},
                  model->size()};
    if (!refits(options_)) {
      source.identity.hash = to_hex(hash64(model->bytes()));
    } else {
      source.identify_without_weights();
    }
    return source;
  };
  return name_out_of_memory([&] { return fmt::format("out of memory while building '{}'", model->path()); },
                            [&] { return build_checked(read); });
}

Engine Builder::build(const onnx::ModelProto& model) {
  const auto read = [&] {
    if (refits(options_)) {
      Source source{model, {model.graph.name, ""}};
      source.identify_without_weights();
      return source;
    }
    // The tensors, which may be large, are not copied to be hashed.
    onnx::ModelProto bare = model;
    std::string hashes;
    size_t bytes = 0;
    for (onnx::TensorProto& tensor : bare.graph.initializers) {
      hashes += to_hex(hash64(tensor.raw_data));
      bytes += tensor.raw_data.size();
      tensor.raw_data = {};
    }
    const std::string rest = onnx::model_bytes(bare);
    hashes += to_hex(hash64(std::as_bytes(std::span(rest))));
    return Source{model, {model.graph.name, to_hex(hash64(std::as_bytes(std::span(hashes))))}, bytes + rest.size()};
  };
  return name_out_of_memory([&] { return fmt::format("out of memory while building '{}'", model.file); },
                            [&] { return build_checked(read); });
}

Engine Builder::build_checked(const std::function<Source()>& read) {
  report_ = {};
  const std::shared_ptr<const Backend> backend = find_backend(options_.device);
  BuildOptions options = with_precisions(options_, *backend);
  const auto progress = [&](std::string_view stage, double fraction) {
    options.cancellation.check("building");
    if (options.progress) options.progress(stage, fraction);
  };
  if (!std::isfinite(options.verify_seconds) || options.verify_seconds < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("verification cannot take {} seconds; give 0 or more", options.verify_seconds));
  if (options.threads < 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("a build cannot have {} threads", options.threads));
  check_tuning_options(options);
  check_refit_options(options, *backend);
  const std::string warning = options.device == "cpu" ? cpu::isa_warning(backend->device().isa) : "";
  if (!warning.empty()) log_warning(warning);
  ThreadPool pool(options.threads > 0 ? options.threads : std::max(1, backend->device().cores));

  const WorkScope cancellable(options.cancellation);
  Stopwatch watch;
  progress("reading", 0);
  const std::vector<onnx::LoraAdapter> adapters = read_adapters(options);
  Source source = read();
  const std::unique_ptr<Replaceable> replaceable =
      refits(options) ? replaceable_of(source.model, adapter_initializers(adapters)) : nullptr;
  const ReplaceableScope watched(replaceable.get());
  onnx::ImportedModel imported = onnx::import_model(source.model, import_options(options.profiles));
  source.model = {};  // its text may be large; the graph keeps the storage of what it took
  if (!adapters.empty()) {
    source.identity.hash = to_hex(hash64(source.identity.hash + adapters_hash(adapters, refits(options))));
    report_.lora = add_lora(imported.graph, adapters, pool);
  }
  const ModelIdentity& model = source.identity;
  const std::shared_ptr<Budget> budget = make_budget(options, imported.graph);
  const WorkScope budgeted(options.cancellation, budget);
  const PluginDeviceScope of_plugins(backend->device().id);
  const std::vector<std::string> debug_tensors = keep_debug_tensors(imported.graph, options.debug_tensors);
  warn_of_unused(options, *backend);
  options = with_types_of(std::move(options), imported.graph, *backend);
  ModelOptimizer optimizer(options, *backend, pool);
  // Before the reference is taken, which is to compute as the engine does: what f16 loses beyond its range is no error.
  optimizer.settle_meaning(imported.graph);
  for (const Profile& profile : options.profiles) check_profile(imported.graph, profile);
  report_.model_nodes = imported.model_nodes;
  BuildTuning tuning(options, model, *backend, pool);
  report_.seconds_import = watch.lap();

  check_plugins_for(imported.graph, backend->device());
  if (options.verify || options.tuning == Tuning::measure) check_operations(imported.graph, options, *budget);

  SymbolBindings optimum;
  if (!options.profiles.empty()) optimum = bind_profile(imported.graph, options.profiles.front());
  std::vector<std::string> verified_plugins;
  const bool all_sizes = plugin_checks().verify;
  if (options.verify || all_sizes) {
    const double tolerance = with_used_precisions(options, optimizer.precision()).effective_tolerance();
    PluginVerifyOptions how;
    how.tolerance = tolerance;
    how.seed = options.seed;
    how.optimum = optimum;
    how.briefly = !all_sizes;
    how.device = backend->device().id;
    how.cancellation = options.cancellation;
    std::vector<std::string> lines = verify_plugins(imported.graph, how, pool.most());
    if (all_sizes) verified_plugins = std::move(lines);
    report_.seconds_verify += watch.lap();
  }
  std::vector<SymbolBindings> optima = bind_further_profiles(imported.graph, options.profiles);
  optima.insert(optima.begin(), optimum);
  std::vector<TacticDecision> decisions;
  const auto compiled = [&](const OptimizedModel& optimized, Deviation most) {
    progress("tuning", 0.3);
    decisions = tuning.choose(optimized.graph, optima, most);
    report_.seconds_tune += watch.lap();
    progress("compiling", 0.5);
    SettledGraph settled = settle_chains(optimized.graph, decisions);
    CompileOptions compile;
    compile.profiles = options.profiles;
    compile.cancellation = options.cancellation;
    compile.metadata = metadata_of(imported, model, source.bytes, backend->device());
    for (const auto& [name, text] : plugins_of(imported.graph)) compile.metadata["plugin " + name] = text;
    if (!adapters.empty()) compile.metadata[std::string(lora_input)] = names_of(adapters);
    // Which of the outputs are none of the model's.
    if (!debug_tensors.empty()) compile.metadata["debug_tensors"] = fmt::format("{}", fmt::join(debug_tensors, "\n"));
    compile.metadata["tuning"] = tuning.summary();
    compile.metadata["precision"] = optimized.precision;
    compile.notes = optimized.notes;
    compile.most_deviation = most;
    compile.decisions = std::move(settled.decisions);
    if (replaceable) {
      compile.initializers = replaceable->records();
      compile.strip_weights = options.strip_weights;
      report_refit(*replaceable, report_);
    }
    for (auto& [name, notes] : settled.notes)
      compile.notes[name].insert(compile.notes[name].end(), notes.begin(), notes.end());
    Engine engine = compile_graph(std::move(settled.graph), backend, compile);
    report_.seconds_compile += watch.lap();
    return engine;
  };
  progress("optimising", 0.1);
  // Only what is checked may round more than it must; what is locked was checked by the build that wrote the lock file.
  const bool is_checked = (options.verify || tuning.is_locked()) && !replaceable;
  const Deviation most_allowed = is_checked ? Deviation::rounding : Deviation::specials;
  const auto chosen = [&] {
    const std::vector<LayerPrecision> low = optimizer.low_precisions();
    if (low.empty() || options.tuning != Tuning::measure)
      return optimizer.run(imported.graph, tuning.low_precision(low), tuning.kept_layers());
    LayerContest contest{optimizer, imported.graph, [&](const OptimizedModel& m) { return compiled(m, most_allowed); }};
    contest.inputs = inputs_to_measure(imported.graph, options, optimum);
    if (options.constraints != PrecisionConstraints::none) contest.rules = PrecisionRules(options.layer_precisions);
    contest.threads = pool.size();
    contest.cancellation = options.cancellation;
    OptimizedModel fastest = choose_layers(std::move(contest));
    report_.seconds_tune += watch.lap();
    return fastest;
  };
  const OptimizedModel optimized = chosen();
  check_rules(options, imported.graph, optimized, "the engine is built");
  report_.passes = optimized.passes;
  report_.kept_f32 = optimized.kept_f32;
  report_.quantized_layers = optimized.quantized_layers;
  report_.seconds_optimize = watch.lap();

  Engine engine = compiled(optimized, most_allowed);

  KnownReference known;
  if (options.verify) {
    // A model that is quantised to 8-bit floats itself is judged as one that is built with fp8.
    BuildOptions judged = with_used_precisions(options, optimizer.precision());
    judged.fp8 = judged.fp8 || optimized.sums_float8;
    VerifyOptions verify;
    verify.tolerance = judged.effective_tolerance();
    constexpr double noise_of_float8_sums = 0x1p-11;
    verify.rounding_noise = std::max(optimizer.precision().noise(), optimized.sums_float8 ? noise_of_float8_sums : 0);
    report_.rounding_noise = verify.rounding_noise;
    verify.excused = usually_excused * std::min(1.0, verify.tolerance / judged.default_tolerance());
    verify.usual_tolerance = judged.default_tolerance();
    verify.seed = options.seed;
    verify.seconds = options.verify_seconds;
    verify.known = &known;
    verify.cancellation = options.cancellation;
    verify.inputs = sample_options(options).inputs;
    for (const auto& inputs : options.further_verification_inputs) verify.further_inputs.push_back(copies_of(inputs));
    verify.adapters = static_cast<int64_t>(adapters.size());
    const auto verified = [&] {
      progress("verifying", 0.6);
      verify.sensitivity_above =
          judged.effective_tolerance() * (has_deviation(engine, Deviation::rounding) ? approximate_share : 1);
      VerifyResult result = verify_engine(optimized.reference, engine, verify, pool);
      report_.seconds_verify += watch.lap();
      return result;
    };
    VerifyResult result = verified();
    const auto refuse_beyond = [&](Deviation most) {
      report_.approximate_refused = true;
      engine = compiled(optimized, most);
      result = verified();
    };
    const bool may_refuse = !tuning.is_locked();
    if (may_refuse && has_deviation(engine, Deviation::rounding) &&
        !has_margin(result, verify.tolerance, verify.excused))
      refuse_beyond(Deviation::specials);
    if (may_refuse && has_deviation(engine, Deviation::specials) && result.unverified.empty() && !result.passed)
      refuse_beyond(Deviation::none);
    report_.verification = result.outputs;
    report_.samples = result.samples;
    report_.not_verified = not_verified(result);
    for (std::string& line : plugins_without_reference(imported.graph)) report_.not_verified.push_back(std::move(line));
    if (verify.excused * result.sensitivity > verify.tolerance) report_.sensitivity = result.sensitivity;
    if (result.by_layers) {
      report_.judged_tensors = result.layers.judged;
      report_.undecided_tensors = result.layers.undecided;
      report_.layers_error = result.layers.worst;
    }
    if (!result.unverified.empty())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the engine cannot be verified: {}. Give real inputs (--inputs), or shapes that fit "
                              "(--shapes), or build without verification (--no-verify)",
                              result.unverified));
    if (!result.passed)
      throw Error(ErrorCode::verification_failed, failure_message(result, verify.tolerance, verify.excused));
    for (const std::string& text : report_.not_verified) log_warning("not verified: " + text);
  }
  log_debug(fmt::format("the build took {:.2g} operations and {} at most", budget->operations_taken(),
                        format_bytes(budget->most_bytes_in_use())));
  report_.samples.insert(report_.samples.end(), verified_plugins.begin(), verified_plugins.end());
  report_.layers = static_cast<int64_t>(engine.impl()->plan.steps.size());
  tuning.report(report_);
  tuning.write_lock(optimized, optimum, decisions);
  const bool is_plain =
      !options.fp16 && !options.bf16 && !options.int8 && !options.fp8 && !options.best && !options.strongly_typed;
  if (is_plain && options.tuning == Tuning::measure && options.stop_after_pass < 0)
    report_.gains = precision_gains(options, backend, imported.graph, optimized.graph, optimum, known.sample(), pool);
  progress("done", 1);
  return engine;
}

}  // namespace camshaft

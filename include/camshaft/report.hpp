// What engines and builds say of themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "camshaft/dtype.hpp"
#include "camshaft/options.hpp"
#include "camshaft/record.hpp"

namespace camshaft {
inline namespace v1 {

/// An input or output of an engine.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  /// Sizes in elements; -1 where the size is dynamic. Of a sequence its length; of an optional nothing; of a map 2.
  Dims dims;
  /// The same as text: numbers, symbols ("batch") or expressions of them ("4*width - 1").
  std::vector<std::string> dim_names;
  /// The whole type as text: "f32[batch, 3]", "seq[n]<f32[?, 3]>" (? for sizes in which elements may differ), "opt<…>",
  /// "map<i64, f32>".
  std::string type;
  /// Of an output: the input whose memory it may be bound to, at its beginning; a run then updates that in place, and
  /// copies nothing. Empty: none.
  std::string aliased_input;
};

/// A way of running a layer that a build looked at.
struct TacticTrial {
  std::string tactic;        ///< with all its parameters: "gemm", "winograd(tile=4)"
  int64_t estimated_ns = 0;  ///< what the cost model expected on one thread
  int64_t measured_ns = -1;  ///< what the clock said on the threads of the build; -1: not measured
  bool refused = false;      ///< rounds more than the error budget of this build allows
};

/// A constant that a step reads.
struct LayerWeight {
  std::string name;
  std::string layout;  ///< of a packed form; empty: its own bytes
  int64_t bytes = 0;
  int64_t offset = -1;  ///< in the engine's file; -1: it is in memory
};

/// One step of an engine, for inspection.
struct LayerInfo {
  std::string name, op, tactic;
  std::string description;                   ///< the expression it computes
  std::vector<std::string> inputs, outputs;  ///< "name: f32[batch, 64]"
  std::vector<std::string> sources;          ///< the model's nodes it came from
  std::vector<TacticTrial> tried;            ///< the tactics that the build looked at, its first guess first
  std::vector<std::string> notes;            ///< why it was not fused with its neighbours
  bool at_binding = false;                   ///< depends on no input: runs once for each set of shapes
  std::vector<int64_t> reads;                ///< the layers whose results it reads, also through views, in their order
  std::vector<LayerWeight> weights;          ///< the constants that it reads
  int64_t streamed_bytes = 0;                ///< of weights that come in for each of its runs
};

/// A layer in one run.
struct LayerSpan {
  int64_t layer = 0;   ///< its place in Engine::layers()
  std::string device;  ///< "cpu": the thread of the run, with those that help it; "cuda:0": the run's stream there
  double start = 0, seconds = 0;
};

/// When what happened in one run, until its last layer was done.
struct RunSpan {
  double start = 0, seconds = 0;
  int64_t thread = 0;             ///< of the host, by the system's number, that the run was on
  std::vector<LayerSpan> layers;  ///< those that ran; in the order in which they began on each device
};

/// The work of a layer for inputs of known shapes.
struct LayerCost {
  bool known = false;           ///< false where a size is known only after running: then the rest is 0
  double flops = 0;             ///< of what contracts: a multiplication and an addition count as two
  double exponentials = 0;      ///< of softmax, GELU, sigmoid and the like: functions that take one, or as long
  double constant_bytes = 0;    ///< of the constants read
  double activation_bytes = 0;  ///< of the other inputs, each once, and the outputs
  /// Of a layer on a GPU: the least time it could take at the highest clock, and what decides ("memory", or the type of
  /// arithmetic, "f32", "tf32", "f16", …). 0: it runs on the host, or the device's limits are unknown.
  double limit_seconds = 0;
  std::string limit;
  std::vector<std::string> inputs, outputs;  ///< "name: f32[8, 64]"
  double bytes() const { return constant_bytes + activation_bytes; }
};

/// Bytes that an engine needs, at the optimum shapes of its first profile (or at its fixed shapes). Sizes that neither
/// says are taken as 1 along first axes and 64 along others, or less or more where the model does not accept that; the
/// arena's figures are 0 when it accepts none of those.
struct MemoryInfo {
  int64_t arena_bytes = 0;        ///< intermediate tensors, as planned
  int64_t arena_lower_bound = 0;  ///< the most that is alive at any one moment
  int64_t weight_bytes = 0;       ///< constants as stored
  int64_t kept_bytes = 0;         ///< what depends on the shapes alone: computed once for each set, and kept
};

/// What a weight budget does to an engine; all but the last in bytes.
struct WeightStreaming {
  int64_t weight_bytes = 0;      ///< that runs read, those in the next figure among them
  int64_t streamable_bytes = 0;  ///< that lie in the engine's file as the kernels read them
  int64_t least_budget = 0;      ///< -1 of an engine in memory, until it has a budget, and so a file
  int64_t automatic_budget = 0;  ///< what "auto" would be now
  int64_t budget = -1;           ///< below 0: there is none
  int64_t staying_bytes = 0;     ///< that stay once they were read; without a budget all
  int64_t window_bytes = 0;      ///< for those that come in; 0 where all stay
  int64_t loads_bytes = 0;       ///< that come in for each run
  int64_t brought_bytes = 0;     ///< that came in so far
  double waited_seconds = 0;     ///< that layers have waited for them so far
};

/// Time of one layer, added up over the runs since the last reset.
struct LayerTime {
  std::string name;                  ///< of the tensor it computes
  std::string op;                    ///< "conv", "matmul", "pointwise", …
  std::string tactic;                ///< how it was implemented
  std::vector<std::string> sources;  ///< the model's nodes it came from
  double seconds = 0;
  int64_t runs = 0;
  /// It depends on no input, and runs in the first run with a set of shapes alone; in all where its results are too
  /// large to be kept.
  bool at_binding = false;
};

/// How far an output of the engine is from the reference evaluation.
struct OutputError {
  std::string output;
  double max_error = 0;  ///< largest absolute difference
  double scale = 0;      ///< largest magnitude of the reference, but for masks' -1e9 that both agree on
  bool exact = false;    ///< integers, booleans and strings, which must be equal where rounding does not decide them
  double differing = 0;  ///< of an exact output: share of its elements that differ
  /// Of an exact output that differs: share of its elements that change in the reference itself when every operator's
  /// result moves by 2^-22, as the order of nearly equal scores does. Up to four times as many may differ, but no more
  /// than an eighth of all, or four, beside those.
  double undecided = 0;
  bool passed = false;
  /// Whether the engine was judged by this output: not where the model amplifies rounding so much that anything would
  /// pass, where a part of it may be wrong (`doubt`), or where none says anything, see BuildReport::judged_tensors.
  bool telling = true;
  /// The error as a part of the scale, or itself where the reference is all zero or as good as.
  double relative_error = 0;
  /// Why an output fails that is within the tolerance, or within what rounding explains: a slice along an axis or many
  /// elements may differ by more than a tenfold tolerance at their own scale, all of it by more than rounding explains,
  /// or a layer is wrong where nothing but rounding explains it.
  std::string doubt;
  /// Elements that say something: all of an exact output, those of others that are finite in the reference.
  int64_t compared = 0;
};

/// What became of a layer that can be computed on 8 bits.
struct LayerPlacement {
  std::string layer;
  bool quantized = false;
  std::string reason;  ///< why it stays in floating point
  /// What it takes in floating point and in 8 bits, with what it is fused with and its conversions; 0 where that was
  /// not measured.
  double float_seconds = 0, int8_seconds = 0;
  std::string precision;  ///< of its engine, where it is quantised: "int8" or "fp8"
};

/// A precision that a build did not allow.
struct PrecisionGain {
  std::string precision;  ///< "fp16", "bf16", "int8"
  double speedup = 1;     ///< how many times as fast the engine would be, by the cost model
  /// The largest error of an output on a sample of the verification, as a part of the output's scale; nothing
  /// where that is not known: without verification, and of int8, which needs a calibration.
  std::optional<double> error;
};

/// What became of a model that was written anew. Nodes are those of the models' graphs, sub-graphs left out; bytes are
/// those of the models and of the data beside them; operator sets are of the default domain.
struct RewriteReport {
  int64_t nodes_before = 0, nodes = 0;
  int64_t bytes_before = 0, bytes = 0;
  int64_t opset_before = 0, opset = 0;
  std::vector<OutputError> verification;  ///< as in BuildReport
  std::vector<std::string> samples;
  std::vector<std::string> not_verified;
};

/// What a build did.
struct BuildReport {
  std::vector<OutputError> verification;  ///< the worst of all samples; empty when verification was off
  /// What the engine was judged on, in words: seeds and shapes of inputs.
  std::vector<std::string> samples;
  /// What it was not judged on, and why: bounds of profiles that "verify-seconds" leaves no time for, or that the
  /// reference refuses; outputs that are empty, or have no finite number.
  std::vector<std::string> not_verified;
  /// How far the reference's own results move when every operator's result moves by `rounding_noise`, a part of itself
  /// (2^-22; 2^-11 in fp16 and TF32, 2^-8 in bf16), over the output's scale; 0 where a quarter of the tolerance is more
  /// than that. Such a model amplifies rounding: its outputs are accepted within four times this.
  double sensitivity = 0;
  double rounding_noise = 0;
  /// Where four times the sensitivity is more than 0.1 (or the tolerance, if larger), outputs cannot judge an engine:
  /// nonsense would pass. Nor can they where it is more than the tolerance, and one differs by more: noise may miss
  /// what moves them. Then it is judged layer by layer, each layer on what the engine gave it: how many tensors
  /// were compared (0: the outputs judged), on how many of them the layer's own rounding leaves the same doubt, and the
  /// largest error of the others as a part of what was allowed.
  int64_t judged_tensors = 0, undecided_tensors = 0;
  double layers_error = 0;
  double seconds_import = 0, seconds_optimize = 0, seconds_tune = 0, seconds_compile = 0, seconds_verify = 0;
  /// Different problems for which there were several good tactics: how many were measured, found in the timing cache,
  /// and left to the cost model because the time was up.
  int64_t problems_measured = 0, problems_cached = 0, problems_out_of_time = 0;
  /// Whether approximate tactics were tried and given up: Winograd F(4,3) because it took more than a quarter of the
  /// tolerance (builds without verification never use it), F(2,3) because verification failed with it, as where
  /// infinities or NaN reach a convolution.
  bool approximate_refused = false;
  /// Values that are too large or too small for f16 on the sample inputs, and constants whose numbers are: they stay
  /// f32. Without verification nothing runs on sample inputs, and only constants are looked at.
  std::vector<std::string> kept_f32;
  /// With int8 or fp8: the convolutions and products with constant weights, and which of them are computed in that.
  std::vector<LayerPlacement> quantized_layers;
  /// With the option refit: how many initializers can be replaced; which cannot, and why; and what was not done so that
  /// they can be.
  int64_t refittable = 0;
  std::vector<std::string> not_refittable, refit_costs;
  /// With the option lora, of each adapter: "french: 12 products, rank 16".
  std::vector<std::string> lora;
  /// Of a build in fp32 that measures: what lower precisions would gain.
  std::vector<PrecisionGain> gains;
  int64_t model_nodes = 0;          ///< nodes of the ONNX graph
  std::vector<std::string> passes;  ///< of the optimiser, in the order in which they ran
  int64_t layers = 0;               ///< steps of the plan
};

namespace detail {

inline TensorInfo tensor_info(const Record& r) {
  return {r["name"].text(), parse_dtype(r["dtype"].text()), r["dims"].integers(), r["dim_names"].texts(),
          r["type"].text(), r["aliased_input"].text()};
}

inline Profile profile(const Record& r) {
  Profile profile;
  for (size_t i = 0; i < r.size(); ++i)
    profile.inputs[r.key(i)] = {r[i]["min"].integers(), r[i]["opt"].integers(), r[i]["max"].integers()};
  return profile;
}

inline TacticTrial tactic_trial(const Record& r) {
  return {r["tactic"].text(), r["estimated_ns"].integer(), r["measured_ns"].integer(), r["refused"].boolean()};
}

inline LayerWeight layer_weight(const Record& r) {
  return {r["name"].text(), r["layout"].text(), r["bytes"].integer(), r["offset"].integer()};
}

inline WeightStreaming weight_streaming(const Record& r) {
  return {r["weight_bytes"].integer(),     r["streamable_bytes"].integer(), r["least_budget"].integer(),
          r["automatic_budget"].integer(), r["budget"].integer(),           r["staying_bytes"].integer(),
          r["window_bytes"].integer(),     r["loads_bytes"].integer(),      r["brought_bytes"].integer(),
          r["waited_seconds"].number()};
}

inline LayerInfo layer_info(const Record& r) {
  return {r["name"].text(),
          r["op"].text(),
          r["tactic"].text(),
          r["description"].text(),
          r["inputs"].texts(),
          r["outputs"].texts(),
          r["sources"].texts(),
          r["tried"].list(tactic_trial),
          r["notes"].texts(),
          r["at_binding"].boolean(),
          r["reads"].integers(),
          r["weights"].list(layer_weight),
          r["streamed_bytes"].integer()};
}

inline LayerCost layer_cost(const Record& r) {
  return {!r.is_null(),
          r["flops"].number(),
          r["exponentials"].number(),
          r["constant_bytes"].number(),
          r["activation_bytes"].number(),
          r["limit_seconds"].number(),
          r["limit"].text(),
          r["inputs"].texts(),
          r["outputs"].texts()};
}

inline LayerSpan layer_span(const Record& r) {
  return {r["layer"].integer(), r["device"].text(), r["start"].number(), r["seconds"].number()};
}

inline RunSpan run_span(const Record& r) {
  return {r["start"].number(), r["seconds"].number(), r["thread"].integer(), r["layers"].list(layer_span)};
}

inline LayerTime layer_time(const Record& r) {
  return {r["name"].text(),      r["op"].text(),      r["tactic"].text(),       r["sources"].texts(),
          r["seconds"].number(), r["runs"].integer(), r["at_binding"].boolean()};
}

inline OutputError output_error(const Record& r) {
  return {r["output"].text(),           r["max_error"].number(), r["scale"].number(),    r["exact"].boolean(),
          r["differing"].number(),      r["undecided"].number(), r["passed"].boolean(),  r["telling"].boolean(),
          r["relative_error"].number(), r["doubt"].text(),       r["compared"].integer()};
}

inline LayerPlacement layer_placement(const Record& r) {
  return {r["layer"].text(),           r["quantized"].boolean(),   r["reason"].text(),
          r["float_seconds"].number(), r["int8_seconds"].number(), r["precision"].text()};
}

inline PrecisionGain precision_gain(const Record& r) {
  return {r["precision"].text(), r["speedup"].number(),
          r["error"].is_null() ? std::nullopt : std::optional(r["error"].number())};
}

inline RewriteReport rewrite_report(const Record& r) {
  RewriteReport report;
  report.nodes_before = r["nodes_before"].integer();
  report.nodes = r["nodes"].integer();
  report.bytes_before = r["bytes_before"].integer();
  report.bytes = r["bytes"].integer();
  report.opset_before = r["opset_before"].integer();
  report.opset = r["opset"].integer();
  report.verification = r["verification"].list(output_error);
  report.samples = r["samples"].texts();
  report.not_verified = r["not_verified"].texts();
  return report;
}

inline BuildReport build_report(const Record& r) {
  BuildReport report;
  report.verification = r["verification"].list(output_error);
  report.samples = r["samples"].texts();
  report.not_verified = r["not_verified"].texts();
  report.sensitivity = r["sensitivity"].number();
  report.rounding_noise = r["rounding_noise"].number();
  report.judged_tensors = r["judged_tensors"].integer();
  report.undecided_tensors = r["undecided_tensors"].integer();
  report.layers_error = r["layers_error"].number();
  report.seconds_import = r["seconds_import"].number();
  report.seconds_optimize = r["seconds_optimize"].number();
  report.seconds_tune = r["seconds_tune"].number();
  report.seconds_compile = r["seconds_compile"].number();
  report.seconds_verify = r["seconds_verify"].number();
  report.problems_measured = r["problems_measured"].integer();
  report.problems_cached = r["problems_cached"].integer();
  report.problems_out_of_time = r["problems_out_of_time"].integer();
  report.approximate_refused = r["approximate_refused"].boolean();
  report.kept_f32 = r["kept_f32"].texts();
  report.refittable = r["refittable"].integer();
  report.not_refittable = r["not_refittable"].texts();
  report.refit_costs = r["refit_costs"].texts();
  report.lora = r["lora"].texts();
  report.gains = r["gains"].list(precision_gain);
  report.quantized_layers = r["quantized_layers"].list(layer_placement);
  report.model_nodes = r["model_nodes"].integer();
  report.passes = r["passes"].texts();
  report.layers = r["layers"].integer();
  return report;
}

}  // namespace detail

}  // namespace v1
}  // namespace camshaft

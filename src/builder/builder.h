// From an ONNX model to an engine.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "compile/tune/tuning.h"
#include "engine/profile.h"
#include "optimize/precision_rules.h"
#include "quantize/place_quantization.h"
#include "runtime/engine.h"

namespace camshaft {

class MappedFile;
namespace onnx {
struct ModelProto;
}

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
  /// Elements that say something: all of an exact output, those of others that are finite in the reference.
  int64_t compared = 0;
  bool passed = false;
  /// Whether the engine was judged by this output: not where the model amplifies rounding so much that anything would
  /// pass, where a part of it may be wrong (`doubt`), or where none says anything, see BuildReport::judged_tensors.
  bool telling = true;
  /// Why an output fails that is within the tolerance, or within what rounding explains: a slice along an axis or many
  /// elements may differ by more than a tenfold tolerance at their own scale, all of it by more than rounding explains,
  /// or a layer is wrong where nothing but rounding explains it.
  std::string doubt = {};
  /// What errors are relative to: the scale, or 1 where the reference is all zero or as good as: near the smallest
  /// numbers that f32 has, exponentials end in 0 and products keep few bits.
  double unit() const { return scale > 1e-30 ? scale : 1; }
  double relative() const { return max_error / unit(); }
};

/// What becomes of precisions that are asked of layers.
enum class PrecisionConstraints {
  none,    ///< they are ignored
  prefer,  ///< a warning where a layer cannot be computed so
  obey,    ///< Error(invalid_argument)
};

struct BuildOptions {
  /// What the engine runs on: "cpu", "cuda", which is the first GPU, or a GPU by its number, "cuda:1". What has no
  /// kernel there runs on the host. The number is not written to engines, lock files and timing caches: equal GPUs
  /// share them.
  std::string device = "cpu";
  /// Allows tensors within the model to be stored, and products to be taken, in f16, with sums in f32. Regions whose
  /// numbers f16 cannot hold stay f32 (see BuildReport::kept_f32), as all do on a device that does not gain from it.
  bool fp16 = false;
  /// The same in bf16, which holds f32's range with fewer bits. Where both are allowed it is f16. On a CPU with
  /// AVX512_BF16 tensors stay f32, and products with constant weights, convolutions and attention may be taken of
  /// operands that are rounded to bf16; then weights are stored so in the engine, also for machines without.
  bool bf16 = false;
  /// Allows products of f32 to be taken of operands that are rounded to TF32 (f16's 11 significant bits, f32's range),
  /// with sums in f32: on tensor cores from compute capability 8.0 on, where that is faster. Without it never: f32 is
  /// multiplied as it is. Attention and recurrent layers stay exact.
  bool tf32 = false;
  /// Allows layers to be computed on integers of 8 bits: those whose tensors the calibration has ranges of. A model
  /// that is quantised already (Q/DQ) needs neither this nor a calibration.
  bool int8 = false;
  /// The same on floats of 8 bits (E4M3) with sums in f32: the largest magnitude of each range, and of each column of
  /// weights, is 448. Where int8 is allowed too, the engine takes the one that is faster. Error(invalid_argument) on a
  /// device without such products: it needs a GPU of compute capability 8.9 or more.
  bool fp8 = false;
  /// Allows every precision that the backend gains from: fp16, or bf16 where that is it, TF32, and int8 and fp8 where
  /// there is a calibration.
  bool best = false;
  /// Allows no precision but those of the model's own tensors; contradicts all of the above.
  bool strongly_typed = false;
  /// What is asked of layers, by the names of the model's nodes: see PrecisionRules. A layer is computed in fp32 where
  /// it cannot be in what is asked; whether that is an error, `constraints` say.
  std::vector<PrecisionRule> layer_precisions;
  /// The types in which layers store their results, in the same way; int8 and fp8 are none.
  std::vector<PrecisionRule> layer_output_types;
  PrecisionConstraints constraints = PrecisionConstraints::prefer;
  /// The file with the ranges that int8 and fp8 need, see quantize/calibration_file.h; empty: none.
  std::string calibration;
  /// Shapes to tune for and to accept; empty: any shape.
  std::vector<Profile> profiles;
  /// Threads for building, measuring and verifying; 0: one for each core.
  int threads = 0;
  /// How the kernel of each layer is chosen.
  Tuning tuning = Tuning::measure;
  /// A file that keeps what was measured, for this and other models and for several machines; made if there is none,
  /// and brought up to date. Empty: what was measured is forgotten. Unused unless measuring.
  std::string timing_cache;
  /// Measuring stops after this many seconds, the most promising layers first; the cost model decides the rest. 0 or
  /// more.
  double tuning_seconds = 60;
  /// The lock file to take all choices from, which Tuning::locked needs: the same model and lock file give the same
  /// engine byte by byte, wherever, whenever and with however many threads it is built.
  std::string lock;
  /// Where to write the lock file of this build; empty: nowhere.
  std::string write_lock;
  /// Compare the engine with the reference evaluation of the model on seeded inputs, and fail outside the tolerance,
  /// and where it cannot be compared.
  bool verify = true;
  /// One set of inputs is always judged. Further ones, with other seeds and sizes, are as long as they are expected to
  /// fit into this time, in seconds (BuildReport::samples). 0 or more.
  double verify_seconds = 10;
  /// How many operations folding constants and verifying may take in all, counted by reference/operations.h, and so
  /// one run of the model before anything is measured; 0: as make_budget() says. What needs more is refused before it
  /// is begun.
  double max_operations = 0;
  /// How many bytes of tensors and buffers the build may have in the host's memory at the same time, beside the model's
  /// own file; 0: as make_budget() says.
  double max_memory = 0;
  /// Largest allowed max_error / scale of a floating-point output. 0: 1e-4, or what the precisions need that are
  /// allowed and that the device gains from: 0.02 for f16, TF32 and fp8 (sums of which keep 14 bits on Hopper), 0.1 for
  /// bf16. Below that, less is excused by rounding too, in proportion.
  double tolerance = 0;
  /// Seed of the inputs used for verification.
  uint64_t seed = 0;
  /// Inputs to verify on instead, by name; those left out are made from the seed. The memory must stay valid during the
  /// build.
  std::map<std::string, TensorView> verification_inputs;
  /// Further sets of them, each of other sizes as it likes, judged as long as they are expected to fit into
  /// `verify_seconds`.
  std::vector<std::map<std::string, TensorView>> further_verification_inputs;
  /// The weights can be replaced in the built engine (Refitter). What passes would decide by the numbers of weights
  /// they do without, or it fixes the initializer, and BuildReport says so; kernels that round more than they must are
  /// not used (Deviation::rounding), as what is refitted is not verified. Not in fp16, nor in int8 or fp8 by a
  /// calibration.
  bool refit = false;
  /// Files of the engine have no weights that a refit can bring; this is `refit` too.
  bool strip_weights = false;
  /// Adapters of LoRA, each a name and a .safetensors file or PEFT's folder, see onnx/lora_adapter.h: low-rank updates
  /// of products with constant weights. The engine has a further input "lora", an i64 scalar that chooses one in each
  /// run: 0 is none, as is an input that is not given, 1 the first. With `refit` their numbers can be replaced, too.
  std::vector<std::pair<std::string, std::string>> lora;
  /// Tensors of the model to keep through all fusions, so that they can be tapped.
  std::vector<std::string> debug_tensors;
  /// Stop after this many optimiser passes (BuildReport::passes); -1 runs them all.
  int stop_after_pass = -1;
  /// Called with what is being done ("optimising", "verifying", …) and how far it is, in [0, 1].
  std::function<void(std::string_view stage, double fraction)> progress;
  Cancellation cancellation;

  /// What `tolerance` comes to.
  double effective_tolerance() const { return tolerance > 0 ? tolerance : default_tolerance(); }
  double default_tolerance() const { return bf16 && !fp16 ? 0.1 : fp16 || tf32 || fp8 ? 0.02 : 1e-4; }
};

/// A precision that a build did not allow.
struct PrecisionGain {
  std::string precision;  ///< "fp16", "bf16", "int8"
  double speedup = 1;     ///< how many times as fast the engine would be, by the cost model
  /// The largest error of an output on a sample of the verification, as a part of the output's scale, of int8 with the
  /// ranges of that sample, where nothing is clipped; nothing where that is not known: without verification.
  std::optional<double> error;
};

/// What a build did.
struct BuildReport {
  std::vector<OutputError> verification;  ///< the worst of all samples; empty when verification was off
  /// What the engine was judged on, in words: seeds and shapes of inputs.
  std::vector<std::string> samples;
  /// What it was not judged on, and why: bounds of profiles that BuildOptions::verify_seconds leaves no time for, or
  /// that the reference refuses; outputs that are empty, or have no finite number.
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
  /// Values that are too large or too small for f16, or too large for bf16, on the sample inputs, and constants whose
  /// numbers are: they stay f32. Without verification nothing runs on sample inputs, and only constants are looked at.
  std::vector<std::string> kept_f32;
  /// With int8 or fp8: the convolutions and products with constant weights, and which of them are computed in that.
  std::vector<LayerPlacement> quantized_layers;
  /// Of a build in fp32 that measures: what lower precisions would gain.
  std::vector<PrecisionGain> gains;
  /// With BuildOptions::refit: what no refit can change, "'name': why", and what was not done so that it can, in the
  /// order of the initializers' names.
  std::vector<std::string> not_refittable, refit_costs;
  int64_t refittable = 0;           ///< initializers that can be replaced
  std::vector<std::string> lora;    ///< of each adapter: "french: 12 products, rank 16"
  int64_t model_nodes = 0;          ///< nodes of the ONNX graph
  std::vector<std::string> passes;  ///< of the optimiser, in the order in which they ran
  int64_t layers = 0;               ///< steps of the plan
};

/// Compiles models.
class Builder {
 public:
  explicit Builder(BuildOptions options = {}) : options_(std::move(options)) {}

  /// Reads an ONNX file (and its external data) and compiles it. Throws Error: io, invalid_model, unsupported (naming
  /// every node that is missing), verification_failed (naming the first layer that diverges), cancelled, out_of_memory,
  /// invalid_argument (options that contradict each other, a lock file that does not fit, a damaged timing cache; an
  /// engine that cannot be verified, as the reference refuses the inputs that are made up for a model whose inputs are
  /// axes or shapes, and as of a model that gives nothing finite: it needs BuildOptions::verification_inputs, or to be
  /// built without verification).
  Engine build(const std::string& model_path);
  /// The same of a model that is open already, or in memory. `folder` has its external data; empty: it has none.
  Engine build(std::shared_ptr<const MappedFile> model, const std::string& folder);
  /// The same of a model that was made in memory; what its tensors show must live as long as the engine, which
  /// ModelProto::storage is for.
  Engine build(const onnx::ModelProto& model);
  /// Of the last build.
  const BuildReport& report() const { return report_; }

 private:
  struct Source;
  Engine build_checked(const std::function<Source()>& read);

  BuildOptions options_;
  BuildReport report_;
};

}  // namespace camshaft

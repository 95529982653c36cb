#include "builder/verify_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "builder/engine_noise.h"
#include "builder/layer_error.h"
#include "builder/local_error.h"
#include "builder/rounded_steps.h"
#include "optimize/precision/expand_paged_quantize.h"
#include "optimize/precision/expand_quantization.h"
#include "reference/evaluate.h"

namespace camshaft {

namespace {

// Whether nearly equal numbers change places is a matter of chance: one evaluation with noise may not show it.
constexpr uint64_t most_sample_runs = 4;
// What moves a slice beyond doubt is moved by two.
constexpr uint64_t local_runs = 2;
// An output of few numbers may happen to be moved little: of normal numbers one in 200 is four times the largest of
// four others, one in 4000 that of eight.
constexpr uint64_t most_doubt_runs = 8;
// Errors above this part of the tolerance must be explained by rounding. Wrong engines change an output by less than
// the tolerance where branches add little: those of FastViT, which are scaled by 1e-5, by 1e-5 with the rows of a
// weight shifted, in bf16 those of a small BLOOM by 0.06, where rounding does 0.012. The tolerance of f32 is 400 times
// what one operator rounds by, of which functions like pow take some 20; those of narrower types are 25 to 40 times
// that. Of single layers rounding explains a quarter of that (50 builds of the zoo), and in bf16 6 % of a layer of
// PP-OCR's classifier, a channel of which was 0, is half of its output.
constexpr double unexplained_share = 0.04, unexplained_share_of_narrow = 0.1;

bool is_finite_float(const OutputError& error) {
  return !error.exact && error.compared > 0;
}

class SampleJudge {
 public:
  SampleJudge(const Graph& model, const Engine& engine, const VerificationSample& sample, const SampleRules& rules,
              ThreadPool& pool)
      : model_(model), engine_(engine), sample_(sample), rules_(rules), pool_(pool), expanded_(model) {
    // Noise moves quotients before they are rounded to steps.
    expand_paged_quantize(expanded_, PassContext{.pool = pool});
    expand_quantization(expanded_, PassContext{.pool = pool});
    engine_noise_.emplace(expanded_, engine);
  }

  SampleVerdict run() {
    result_.input_shapes = sample_.shapes;
    actual_ = run_once(engine_, sample_.inputs, pool_.size());
    result_.outputs = compared(actual_);
    measure_sensitivity();
    if (!result_.by_layers) doubt_whole();
    if (!result_.by_layers) doubt_parts();
    // How many runs with noise there were until then depends on the tolerance.
    if (!result_.by_layers) measure_sensitivity();
    result_.passed = all_passed();
    const bool has_steps = std::any_of(expanded_.nodes.begin(), expanded_.nodes.end(), rounds_to_steps);
    // Which gate opens is a matter of chance: the runs with noise may all have missed what moves the outputs of a model
    // that amplifies rounding (EfficientNet-B4 on one of ten seeds: 8e-2 where four runs moved them by 2e-4). So is
    // which quantised value takes another step.
    if (!result_.passed && (usually_excused * result_.sensitivity > usual_tolerance() || has_steps))
      result_.by_layers = true;
    const bool is_empty = std::all_of(result_.outputs.begin(), result_.outputs.end(),
                                      [](const OutputError& e) { return e.compared == 0; });
    if (result_.passed && is_empty) result_.by_layers = true;
    if (result_.by_layers || (!result_.passed && rules_.names_culprit)) judge_layers();
    if (result_.passed && !result_.by_layers) confirm_by_layers();
    return std::move(result_);
  }

 private:
  std::vector<OutputError> compared(const std::vector<Tensor>& outputs) const {
    return compare_outputs(model_.output_names, sample_.expected, outputs, rules_.tolerance, rules_.rounding_noise);
  }
  bool all_passed() const {
    return std::all_of(result_.outputs.begin(), result_.outputs.end(), [](const OutputError& e) { return e.passed; });
  }

  // Empty where noise changes sizes that the model computes, so that nothing fits any more: then the layers are judged.
  std::vector<Tensor> evaluate_noisy(uint64_t run, double of_sums) {
    EvaluateOptions noisy;
    noisy.cancellation = &rules_.cancellation;
    noisy.noise_of = [&](const Node& node) { return engine_noise_->of(node, {rules_.rounding_noise, of_sums}); };
    noisy.noise_of_bodies.of_results = noise_of_f32;
    noisy.noise_seed = rules_.seed + run;
    const auto evaluated = [&]() -> std::vector<Tensor> {
      try {
        if (rules_.rounding_noise < narrow_noise) return evaluate(expanded_, sample_.inputs, pool_, noisy);
        const Graph rounded = with_noisy_weights(expanded_, rules_.rounding_noise, ~noisy.noise_seed);
        return evaluate(rounded, noisy_inputs(noisy.noise_seed), pool_, noisy);
      } catch (const Error& e) {
        if (e.code() != ErrorCode::invalid_argument && e.code() != ErrorCode::invalid_model) throw;
        return {};
      }
    };
    std::vector<Tensor> moved;
    if (rules_.known_noise) {
      std::vector<Tensor>& known = (*rules_.known_noise)[{noisy.noise_seed, of_sums, engine_noise_->key()}];
      if (known.empty()) known = evaluated();
      moved = known;
    } else {
      moved = evaluated();
    }
    if (moved.empty()) result_.by_layers = true;
    return moved;
  }

  // What a product rounds as its operand may be an input; those of narrow types are exact. Signs are others than those
  // of the evaluation and of the weights: noise that comes twice may cancel.
  std::vector<Tensor> noisy_inputs(uint64_t seed) const {
    constexpr uint64_t of_inputs = 0x9E3779B97F4A7C15;
    Random random(seed ^ of_inputs);
    std::vector<Tensor> inputs = sample_.inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].dtype() == DType::f32 || inputs[i].dtype() == DType::f64)
        inputs[i] = with_noise(inputs[i], {}, engine_noise_->of(expanded_.inputs[i], {rules_.rounding_noise, 0}),
                               random, WholeNumbers::stay);
    return inputs;
  }

  double usual_tolerance() const { return rules_.usual_tolerance > 0 ? rules_.usual_tolerance : rules_.tolerance; }

  // Accepts an error of up to four times that of the reference with noise, unless it was doubted already.
  void allow_spread(OutputError& error, const OutputError& spread) {
    if (error.exact) {
      if (error.differing > 0) error.undecided = std::max(error.undecided, spread.differing);
      const auto all = static_cast<double>(error.compared);
      const double differing = error.differing * all, undecided = error.undecided * all;
      error.passed = error.passed || (differing > 0 && differing <= most_excused(undecided, all));
      // Beyond what may be excused, one more of something may have shifted all the others: the layers know.
      if (differing > 0 && (!error.passed || most_excused(undecided, all) >= all) && differing <= 4 * undecided)
        result_.by_layers = true;
    } else if (std::isfinite(spread.relative())) {
      result_.sensitivity = std::max(result_.sensitivity, spread.relative());
      error.passed = error.passed || (error.doubt.empty() && error.relative() <= rules_.excused * spread.relative());
    }
  }

  void measure_sensitivity() {
    const bool ask = std::any_of(result_.outputs.begin(), result_.outputs.end(), [&](const OutputError& e) {
      return !e.exact && !(e.relative() <= rules_.sensitivity_above);
    });
    for (; runs_ < most_sample_runs && !result_.by_layers && ((runs_ == 0 && ask) || !all_passed()); ++runs_) {
      const std::vector<Tensor> moved = evaluate_noisy(runs_, 0);
      if (moved.empty()) return;
      const std::vector<OutputError> spread = compared(moved);
      for (size_t o = 0; o < spread.size(); ++o) allow_spread(result_.outputs[o], spread[o]);
      // Detections above a threshold: rounding decides how many there are.
      for (size_t o = 0; o < spread.size(); ++o)
        if (actual_[o].dims() != sample_.expected[o].dims() && moved[o].dims() != sample_.expected[o].dims())
          result_.by_layers = true;
      if (usually_excused * result_.sensitivity > most_telling(rules_.tolerance)) result_.by_layers = true;
    }
  }

  double unexplained() const {
    const bool is_narrow = rules_.rounding_noise >= narrow_noise && engine_noise_->stores_narrow();
    return rules_.tolerance * (is_narrow ? unexplained_share_of_narrow : unexplained_share);
  }

  // LocalError allows parts ten times of this, which in narrow types is the tolerance at most. Ten times the tolerance
  // of bf16 would be a part's whole scale: scores that were all off by 0.15 passed beside boxes in pixels.
  double part_tolerance() const { return rules_.rounding_noise < narrow_noise ? rules_.tolerance : unexplained(); }

  // Outputs that are within the tolerance, and yet differ by more than rounding does.
  void doubt_whole() {
    std::vector<double> spread(result_.outputs.size());
    const auto is_unexplained = [&](size_t o) {
      const OutputError& error = result_.outputs[o];
      return error.passed && is_finite_float(error) && !(error.relative() <= std::max(unexplained(), 4 * spread[o]));
    };
    const auto any_unexplained = [&] {
      for (size_t o = 0; o < spread.size(); ++o)
        if (is_unexplained(o)) return true;
      return false;
    };
    for (uint64_t run = 0; run < most_doubt_runs && any_unexplained(); ++run) {
      const std::vector<Tensor> noisy = evaluate_noisy(most_sample_runs + run, noise_of_sums);
      if (noisy.empty()) return;
      const std::vector<OutputError> moved = compared(noisy);
      for (size_t o = 0; o < moved.size(); ++o) spread[o] = std::max(spread[o], moved[o].relative());
    }
    for (size_t o = 0; o < spread.size(); ++o) {
      if (!is_unexplained(o)) continue;
      OutputError& error = result_.outputs[o];
      error.passed = false;
      error.doubt = fmt::format("error {:.3g} of its scale {:.3g}, of which rounding explains {:.2g}", error.max_error,
                                error.scale, 4 * spread[o] * error.unit());
    }
  }

  // Outputs that pass as a whole, and parts of which differ by more than rounding does to these parts.
  void doubt_parts() {
    std::map<size_t, LocalError> doubtful;
    for (size_t o = 0; o < result_.outputs.size(); ++o) {
      const OutputError& error = result_.outputs[o];
      if (!error.passed || !is_finite_float(error) || is_container(sample_.expected[o].dtype())) continue;
      LocalError local(sample_.expected[o], actual_[o], part_tolerance(), rules_.rounding_noise, error.unit(),
                       least_sentinel(sample_.expected[o], actual_[o], rules_.rounding_noise), rules_.excused);
      if (local.part() > 1) doubtful.emplace(o, std::move(local));
    }
    if (doubtful.empty()) return;
    std::map<size_t, std::vector<double>> most;
    for (uint64_t run = 0; run < local_runs; ++run) {
      const std::vector<Tensor> moved = evaluate_noisy(most_sample_runs + run, noise_of_sums);
      if (moved.empty()) return;
      for (const auto& [o, local] : doubtful) {
        if (moved[o].dims() != sample_.expected[o].dims()) continue;
        const std::vector<double> e = sample_.expected[o].to_doubles(), m = moved[o].to_doubles();
        std::vector<double>& of_output = most[o];
        of_output.resize(e.size());
        for (size_t i = 0; i < e.size(); ++i) of_output[i] = std::max(of_output[i], difference(e[i], m[i]));
      }
    }
    for (auto& [o, local] : doubtful) {
      local.set_moved(most[o]);
      if (local.part() <= 1) continue;
      result_.outputs[o].doubt = local.where();
      result_.by_layers = true;
    }
  }

  // Noise of the whole model explains what it amplifies, and may do so by chance where a layer is wrong: what nothing
  // else explains must be no layer's either. What a layer's own rounding does is no matter of how far outputs may
  // differ, so that a lower tolerance makes nothing of this stricter.
  void confirm_by_layers() {
    const auto is_explained_by_noise = [&](const OutputError& error) {
      return error.exact ? error.differing > 0 : is_finite_float(error) && !(error.relative() <= unexplained());
    };
    if (std::none_of(result_.outputs.begin(), result_.outputs.end(), is_explained_by_noise)) return;
    result_.layers = judged_layers(unexplained() * usually_excused / rules_.excused, usually_excused);
    if (result_.layers.culprit.empty()) return;
    result_.passed = false;
    for (OutputError& output : result_.outputs) {
      if (!is_explained_by_noise(output)) continue;
      output.passed = false;
      output.doubt = fmt::format("error {:.3g} of its scale {:.3g}, as rounding may make, but a layer is wrong",
                                 output.max_error, output.scale);
    }
  }

  LayersVerdict judged_layers(double tolerance, double excused) const {
    LayerRules rules{tolerance, rules_.rounding_noise, rules_.seed, rules_.cancellation, excused};
    rules.engine_noise = &*engine_noise_;
    return verify_layers(expanded_, engine_, sample_.inputs, rules, pool_);
  }

  void judge_layers() {
    result_.layers = judged_layers(unexplained(), rules_.excused);
    if (!result_.by_layers) return;
    const LayersVerdict& layers = result_.layers;
    result_.passed = layers.culprit.empty();
    if (result_.passed && layers.judged == 0 && !rules_.inputs_are_given)
      result_.unverified = "the reference evaluation gives no finite number for any of the engine's tensors";
    else if (result_.passed && layers.judged > 0 && !layers.tells())
      result_.unverified =
          fmt::format("rounding decides what {} of the engine's {} tensors hold", layers.undecided, layers.judged);
    if (!result_.unverified.empty()) result_.passed = false;
    for (OutputError& output : result_.outputs) {
      output.passed = result_.passed;
      output.telling = false;
    }
  }

  const Graph& model_;
  const Engine& engine_;
  const VerificationSample& sample_;
  const SampleRules& rules_;
  ThreadPool& pool_;
  Graph expanded_;
  std::optional<EngineNoise> engine_noise_;
  std::vector<Tensor> actual_;
  SampleVerdict result_;
  uint64_t runs_ = 0;  // with noise, that the sensitivity is known from
};

}  // namespace

SampleVerdict verify_sample(const Graph& model, const Engine& engine, const VerificationSample& sample,
                            const SampleRules& rules, ThreadPool& pool) {
  return SampleJudge(model, engine, sample, rules, pool).run();
}

}  // namespace camshaft

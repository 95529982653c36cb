#include "builder/verify_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "builder/engine_tensors.h"
#include "builder/layer_error.h"
#include "builder/rounded_steps.h"
#include "reference/evaluate.h"

namespace camshaft {

namespace {

// By one random sign an element that rounding decides may happen not to move: two runs with noise, and up to eight
// until the error is this part of what is allowed, which leaves approximate tactics their margin.
constexpr uint64_t least_runs = 2, most_runs = 8;
constexpr double clear_part = 0.25;
// Four times it is what an f32 sum may be off by, see rounding_scale(). Sums of random signs are by 1/sqrt(terms) of
// that, those that rise to a peak and fall again by an eighth.
constexpr double noise_of_sums = 0x1p-26;

// The part of the model that computes a value from those that are `given`.
Graph layer_of(const Graph& model, ValueId result, const std::map<ValueId, Tensor>& given) {
  Graph layer;
  layer.values = model.values;
  std::set<ValueId> wanted = {result};
  for (size_t n = model.nodes.size(); n-- > 0;) {
    const Node& node = model.nodes[n];
    const bool needed = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      return id == result || (wanted.contains(id) && !given.contains(id));
    });
    if (!needed) continue;
    layer.nodes.push_back(node);
    for (const ValueId id : node.inputs)
      if (id != no_value && !model.is_constant(id)) wanted.insert(id);
  }
  std::reverse(layer.nodes.begin(), layer.nodes.end());
  for (const ValueId id : wanted)
    if (id != result && given.contains(id)) layer.inputs.push_back(id);
  layer.add_output(model.value(result).name, result);
  return layer;
}

class Judge {
 public:
  Judge(const Graph& model, const Engine& engine, const LayerRules& rules, const std::vector<Tensor>& inputs,
        ThreadPool& pool)
      : model_(model), rules_(rules), pool_(pool), engine_(model, engine, inputs, pool.size(), rules.cancellation) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      given_[model.inputs[i]] = inputs[i];
      bind(model.inputs[i], inputs[i].dims(), {});
    }
  }

  LayersVerdict run(const std::vector<Tensor>& inputs) {
    EvaluateOptions options;
    options.cancellation = &rules_.cancellation;
    options.observer = [&](const Node& node, std::vector<Tensor>& outputs) {
      for (size_t o = 0; o < outputs.size() && o < node.outputs.size(); ++o)
        if (const ValueId id = node.outputs[o]; id != no_value) {
          bind(id, outputs[o].dims(), node.outputs);
          take(id, outputs[o]);
        }
    };
    const std::vector<Tensor> outputs = evaluate(model_, inputs, pool_, options);
    for (size_t o = 0; o < outputs.size(); ++o)
      if (!given_.contains(model_.outputs[o])) compare(model_.outputs[o], outputs[o], engine_.outputs()[o]);
    for (Doubt& doubt : doubts_) decide(doubt);
    return verdict_;
  }

 private:
  struct Bound {
    int64_t size;
    std::vector<ValueId> outputs;  // of the node that has it bound; none for the model's inputs
  };

  struct Doubt {
    ValueId id;
    LayerError error;
  };

  void bind(ValueId id, const Dims& dims, const std::vector<ValueId>& outputs) {
    const Shape& shape = model_.shape(id);
    for (size_t i = 0; i < shape.size() && i < dims.size(); ++i)
      if (const auto symbol = shape[i].as_symbol()) symbols_.try_emplace(*symbol, Bound{dims[i], outputs});
  }

  // A result of the reference, in whose place the evaluation goes on with the engine's.
  void take(ValueId id, Tensor& result) {
    const auto [actual, rounding] = engine_.take(model_.value(id).name, result);
    if (!actual.defined()) return;
    compare(id, result, actual, rounding);
    given_[id] = actual;
    result = actual;
  }

  // `rounding`: what the engine stores the tensor in rounds it by, beside what the engine's own precision does.
  void compare(ValueId id, const Tensor& expected, const Tensor& actual, double rounding = 0) {
    const double tolerance = std::max(rules_.tolerance, 2 * rounding);
    LayerError error(expected, actual, tolerance, std::max(rules_.rounding_noise, rounding), rules_.excused);
    const OutputError& compared = error.compared();
    if (compared.compared == 0 && compared.passed) return;
    ++verdict_.judged;
    const double part = compared.relative() / tolerance;
    if (compared.exact ? !compared.passed : !(part <= clear_part && error.local_part() <= 1))
      doubts_.push_back({id, std::move(error)});
    else if (!compared.exact)
      verdict_.worst = std::max(verdict_.worst, part);
  }

  // What noise makes of a layer's result, given the engine's tensors before it; or, instead of noise, a step of each
  // number that it rounds.
  Tensor moved(const Graph& layer, ValueId result, uint64_t run, bool by_steps = false) const {
    EvaluateOptions noisy;
    noisy.cancellation = &rules_.cancellation;
    if (!by_steps) noisy.noise = {rules_.rounding_noise, noise_of_sums};
    if (!by_steps && rules_.engine_noise)
      noisy.noise_of = [&](const Node& node) { return rules_.engine_noise->of(node, noisy.noise); };
    noisy.noise_seed = rules_.seed + run;
    Random steps(noisy.noise_seed);
    noisy.observer = [&](const Node& node, std::vector<Tensor>& outputs) {
      for (size_t o = 0; o < outputs.size() && o < node.outputs.size(); ++o) {
        const auto it = given_.find(node.outputs[o]);
        if (it != given_.end() && it->first != result)
          outputs[o] = it->second;
        else if (by_steps && rounds_to_steps(node))
          outputs[o] = with_steps(outputs[o], steps);
      }
    };
    // Sizes that the layer itself finds out are what it finds.
    const auto is_found = [&](const Bound& bound) {
      return std::any_of(layer.nodes.begin(), layer.nodes.end(),
                         [&](const Node& node) { return node.outputs == bound.outputs; });
    };
    for (const auto& [symbol, bound] : symbols_)
      if (!is_found(bound)) noisy.bindings.emplace(symbol, bound.size);
    Random random(~noisy.noise_seed);
    std::vector<Tensor> inputs;
    for (const ValueId id : layer.inputs)
      inputs.push_back(by_steps ? given_.at(id) : with_noise(given_.at(id), {}, noisy.noise, random));
    const bool is_narrow = !by_steps && rules_.rounding_noise >= narrow_noise;
    try {
      if (!is_narrow) return evaluate(layer, inputs, pool_, noisy)[0];
      return evaluate(with_noisy_weights(layer, rules_.rounding_noise, noisy.noise_seed), inputs, pool_, noisy)[0];
    } catch (const Error& e) {
      // Noise changed how many of something there are, and other inputs have as many as before.
      if (e.code() == ErrorCode::invalid_argument) return {};
      throw;
    }
  }

  void decide(Doubt& doubt) {
    const Graph layer = layer_of(model_, doubt.id, given_);
    const bool has_steps = std::any_of(layer.nodes.begin(), layer.nodes.end(), [&](const Node& node) {
      return rounds_to_steps(node) && (node.outputs[0] == doubt.id || !given_.contains(node.outputs[0]));
    });
    for (uint64_t run = 0; has_steps && run < least_runs; ++run)
      doubt.error.add_steps(moved(layer, doubt.id, run, true));
    // How many elements take another step, or another place, is no matter of approximate tactics.
    const double clear = has_steps || doubt.error.compared().exact ? 1 : clear_part;
    const auto is_clear = [&](const LayerError::Verdict& v) { return v.part <= clear && v.local <= 1; };
    LayerError::Verdict verdict;
    for (uint64_t run = 0; run < least_runs || (run < most_runs && verdict.telling && !is_clear(verdict)); ++run) {
      doubt.error.add_moved(moved(layer, doubt.id, run));
      verdict = doubt.error.judge();
    }
    if (!verdict.telling) {
      if (!doubt.error.compared().passed) ++verdict_.undecided;
      return;
    }
    const bool is_local = verdict.part <= 1 && verdict.local > 1;
    verdict_.worst = std::max(verdict_.worst, is_local ? verdict.local : verdict.part);
    if ((verdict.part <= 1 && !is_local) || !verdict_.culprit.empty()) return;
    const std::string& name = model_.value(doubt.id).name;
    std::string layer_text = engine_.layer_of(name);
    if (layer_text.empty()) layer_text = fmt::format("output '{}'", name);
    const std::string error =
        is_local ? doubt.error.where()
                 : fmt::format("error {:.3g} of scale {:.3g}", verdict.error, doubt.error.compared().scale);
    verdict_.culprit = fmt::format("{}: {}", layer_text, error);
  }

  const Graph& model_;
  const LayerRules& rules_;
  ThreadPool& pool_;
  EngineTensors engine_;
  std::map<ValueId, Tensor> given_;  // the inputs, and the engine's tensors
  std::map<std::string, Bound> symbols_;
  std::vector<Doubt> doubts_;  // what is not clearly within the tolerance, in the order of the model
  LayersVerdict verdict_;
};

}  // namespace

LayersVerdict verify_layers(const Graph& model, const Engine& engine, const std::vector<Tensor>& inputs,
                            const LayerRules& rules, ThreadPool& pool) {
  return Judge(model, engine, rules, inputs, pool).run(inputs);
}

}  // namespace camshaft

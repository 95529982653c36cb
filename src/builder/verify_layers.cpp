#include "builder/verify_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "builder/engine_tensors.h"
#include "builder/layer_error.h"
#include "builder/rounded_steps.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/rotary_embedding.h"
#include "reference/evaluate.h"

namespace camshaft {

namespace {

// By one random sign an element that rounding decides may happen not to move: two runs with noise, and up to eight
// until the error is this part of what is allowed, which leaves approximate tactics their margin.
constexpr uint64_t least_runs = 2, most_runs = 8;
constexpr double clear_part = 0.25;

// The part of the model that computes a value from those that are `given`: its first output. The others are the numbers
// that it rounds to steps, before it does.
Graph layer_of(const Graph& model, ValueId result, const std::map<ValueId, Tensor>& given) {
  Graph layer;
  layer.values = model.values;
  std::set<ValueId> wanted = {result}, unrounded;
  for (size_t n = model.nodes.size(); n-- > 0;) {
    const Node& node = model.nodes[n];
    const bool needed = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      return id == result || (wanted.contains(id) && !given.contains(id));
    });
    if (!needed) continue;
    layer.nodes.push_back(node);
    for (const ValueId id : node.inputs)
      if (id != no_value && !model.is_constant(id)) wanted.insert(id);
    if (rounds_to_steps(node) && !model.is_constant(node.inputs[0])) unrounded.insert(node.inputs[0]);
  }
  std::reverse(layer.nodes.begin(), layer.nodes.end());
  // What no node computes is an input of the model that is an output, too.
  for (const ValueId id : wanted)
    if ((id != result || layer.nodes.empty()) && given.contains(id)) layer.inputs.push_back(id);
  layer.add_output(model.value(result).name, result);
  for (const ValueId id : unrounded) layer.add_output(model.value(id).name, id);
  return layer;
}

// Whether a small change of the operands may change the result by much at some places, as that of a comparison does:
// which elements it does that to is a matter of chance.
bool may_jump(const Graph& graph, const Node& node) {
  using F = ScalarFunction;
  constexpr F jumps[] = {F::sign, F::ceil, F::floor, F::round, F::mod, F::fmod};
  const auto is_moved_float = [&](ValueId id) {
    return id != no_value && !graph.is_constant(id) && is_floating(graph.type(id).dtype);
  };
  if (std::none_of(node.inputs.begin(), node.inputs.end(), is_moved_float)) return !node.bodies.empty();
  if (const auto* scalar = node.op.as<ops::Pointwise>();
      scalar && std::find(std::begin(jumps), std::end(jumps), scalar->function) != std::end(jumps))
    return true;
  const auto has_steps = [&](ValueId id) {
    return id != no_value && (!is_floating(graph.type(id).dtype) || bit_width(graph.type(id).dtype) <= 8);
  };
  if (std::any_of(node.outputs.begin(), node.outputs.end(), has_steps)) return true;
  return node.op.traits().kind == OpKind::other && !node.op.as<ops::Softmax>() && !node.op.as<ops::LayerNorm>() &&
         !node.op.as<ops::GroupNorm>() && !node.op.as<ops::Pool>() && !node.op.as<ops::RotaryEmbedding>();
}

// Whether a small change of the operands may now and then change the result by any amount, as that of a number by which
// another is divided does: of such changes one in some is many times those of others.
bool may_spread(const Node& node) {
  using F = ScalarFunction;
  constexpr F slopes_without_bound[] = {F::sqrt, F::reciprocal, F::log,   F::log1p, F::tan, F::asin,
                                        F::acos, F::acosh,      F::atanh, F::div,   F::pow};
  if (const auto* scalar = node.op.as<ops::Pointwise>())
    return std::find(std::begin(slopes_without_bound), std::end(slopes_without_bound), scalar->function) !=
           std::end(slopes_without_bound);
  const OpKind kind = node.op.traits().kind;
  return kind != OpKind::pointwise && kind != OpKind::move && kind != OpKind::contraction;
}

bool bodies_round_to_steps(const Node& node) {
  return std::any_of(node.bodies.begin(), node.bodies.end(), [](const Graph& body) {
    return std::any_of(body.nodes.begin(), body.nodes.end(),
                       [](const Node& inner) { return rounds_to_steps(inner) || bodies_round_to_steps(inner); });
  });
}

class Judge {
 public:
  Judge(const Graph& model, const Engine& engine, const LayerRules& rules, const std::vector<Tensor>& inputs,
        ThreadPool& pool)
      : model_(model), rules_(rules), pool_(pool), engine_(model, engine, inputs, pool, rules.cancellation) {
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
    // An output is the tensor that the engine gives under its name, which may be another one than its layer computed.
    for (size_t o = 0; o < outputs.size(); ++o) {
      const ValueId id = model_.outputs[o];
      if (given_.contains(id) && outputs[o] == engine_.outputs()[o]) continue;
      const auto replaced = replaced_.find(id);
      compare(id, replaced == replaced_.end() ? outputs[o] : replaced->second, engine_.outputs()[o]);
    }
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
    if (std::find(model_.outputs.begin(), model_.outputs.end(), id) != model_.outputs.end())
      replaced_.emplace(id, result);
    given_[id] = actual;
    result = actual;
  }

  // `rounding`: what the engine stores the tensor in rounds it by, beside what the engine's own precision does.
  void compare(ValueId id, const Tensor& expected, const Tensor& actual, double rounding = 0) {
    const double tolerance = std::max(rules_.tolerance, 2 * rounding);
    const double own = noise_of_result(id).of_results;
    LayerError error(expected, actual, tolerance, std::max(own, rounding), rules_.excused);
    const OutputError& compared = error.compared();
    if (compared.compared == 0 && compared.passed) return;
    ++verdict_.judged;
    const double part = compared.relative() / tolerance;
    if (compared.exact ? !compared.passed : !(part <= clear_part && error.local_part() <= 1))
      doubts_.push_back({id, std::move(error)});
    else if (!compared.exact)
      verdict_.worst = std::max(verdict_.worst, part);
  }

  using Observer = std::function<void(const Node&, std::vector<Tensor>&)>;

  // The outputs of a layer, given the engine's tensors before it. Empty where noise changed how many of something there
  // are, and other inputs have as many as before.
  std::vector<Tensor> evaluated(const Graph& layer, const std::vector<Tensor>& inputs, EvaluateOptions options,
                                const Observer& observer = {}) const {
    options.cancellation = &rules_.cancellation;
    options.observer = [&](const Node& node, std::vector<Tensor>& outputs) {
      for (size_t o = 0; o < outputs.size() && o < node.outputs.size(); ++o)
        if (const auto it = given_.find(node.outputs[o]); it != given_.end() && it->first != layer.outputs[0])
          outputs[o] = it->second;
      if (observer) observer(node, outputs);
    };
    // Sizes that the layer itself finds out are what it finds.
    const auto is_found = [&](const Bound& bound) {
      return std::any_of(layer.nodes.begin(), layer.nodes.end(),
                         [&](const Node& node) { return node.outputs == bound.outputs; });
    };
    for (const auto& [symbol, bound] : symbols_)
      if (!is_found(bound)) options.bindings.emplace(symbol, bound.size);
    try {
      return evaluate(layer, inputs, pool_, options);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::invalid_argument) return {};
      throw;
    }
  }

  std::vector<Tensor> given_inputs(const Graph& layer) const {
    std::vector<Tensor> inputs;
    for (const ValueId id : layer.inputs) inputs.push_back(given_.at(id));
    return inputs;
  }

  RoundingNoise noise() const { return {rules_.rounding_noise, noise_of_sums}; }
  // Bodies of loops and branches are computed in f32, whatever is around them.
  static RoundingNoise noise_of_bodies(double times) { return {noise_of_f32 * times, 0}; }
  // What its readers see.
  RoundingNoise noise_of(ValueId id) const {
    return rules_.engine_noise ? rules_.engine_noise->of(id, noise()) : noise();
  }
  RoundingNoise noise_of_result(ValueId id) const {
    return rules_.engine_noise ? rules_.engine_noise->of_result(id, noise()) : noise();
  }

  std::vector<Tensor> with_noise_of(const Graph& layer, uint64_t run) const {
    EvaluateOptions noisy;
    noisy.noise = noise();
    noisy.noise_of_bodies = noise_of_bodies(1);
    noisy.noise_of = [&](const Node& node) {
      const ValueId id = node.outputs[0];
      return id == layer.outputs[0] ? noise_of_result(id) : noise_of(id);
    };
    noisy.noise_seed = rules_.seed + run;
    Random random(~noisy.noise_seed);
    std::vector<Tensor> inputs;
    // What this layer reads may have been narrowed for it.
    for (const ValueId id : layer.inputs) inputs.push_back(with_noise(given_.at(id), {}, noise_of(id), random));
    if (rules_.rounding_noise < narrow_noise) return evaluated(layer, inputs, noisy);
    return evaluated(with_noisy_weights(layer, rules_.rounding_noise, noisy.noise_seed), inputs, noisy);
  }

  // A layer's result with steps within its bodies across edges that are as near as those that Edges knows: which ones
  // take them is drawn, as what a body computes has no names here.
  Tensor with_steps_of_bodies(const Graph& layer, uint64_t run) const {
    EvaluateOptions options;
    options.noise_of_bodies = noise_of_bodies(rules_.excused);
    options.noise_seed = rules_.seed + run;
    const std::vector<Tensor> outputs = evaluated(layer, given_inputs(layer), options);
    return outputs.empty() ? Tensor() : outputs[0];
  }

  // The numbers that a layer rounds to steps, and how far noise moved them.
  class Edges {
   public:
    Edges(const Judge& judge, const Graph& layer) : judge_(judge), layer_(layer) {
      if (layer.outputs.size() > 1) exact_ = judge.evaluated(layer, judge.given_inputs(layer), {});
      reach_.resize(exact_.size());
    }

    bool any() const { return !exact_.empty(); }

    void move(const std::vector<Tensor>& noisy) {
      for (size_t o = 1; o < exact_.size() && o < noisy.size(); ++o) {
        if (noisy[o].dims() != exact_[o].dims()) continue;
        const std::vector<double> e = exact_[o].to_doubles(), n = noisy[o].to_doubles();
        reach_[o].resize(e.size());
        for (size_t i = 0; i < e.size(); ++i)
          reach_[o][i] = std::max(reach_[o][i], judge_.rules_.excused * difference(e[i], n[i]));
      }
    }

    // The layer's result with steps across the edges that are in reach: across all of them, or half of them at random.
    Tensor stepped(Random* random) const {
      std::map<ValueId, Tensor> unrounded;
      for (size_t i = 0; i < layer_.inputs.size(); ++i)
        unrounded[layer_.inputs[i]] = judge_.given_.at(layer_.inputs[i]);
      const auto step = [&](const Node& node, std::vector<Tensor>& outputs) {
        if (rounds_to_steps(node)) {
          const auto it = std::find(layer_.outputs.begin() + 1, layer_.outputs.end(), node.inputs[0]);
          const EdgeReach* reach =
              it == layer_.outputs.end() ? nullptr : &reach_[static_cast<size_t>(it - layer_.outputs.begin())];
          const auto before = unrounded.find(node.inputs[0]);
          if (reach && before != unrounded.end() && reach->size() == static_cast<size_t>(outputs[0].size()))
            outputs[0] = across_edges(outputs[0], before->second, *reach, random);
        }
        for (size_t o = 0; o < outputs.size() && o < node.outputs.size(); ++o)
          if (std::find(layer_.outputs.begin() + 1, layer_.outputs.end(), node.outputs[o]) != layer_.outputs.end())
            unrounded[node.outputs[o]] = outputs[o];
      };
      const std::vector<Tensor> outputs = judge_.evaluated(layer_, judge_.given_inputs(layer_), {}, step);
      return outputs.empty() ? Tensor() : outputs[0];
    }

   private:
    const Judge& judge_;
    const Graph& layer_;
    std::vector<Tensor> exact_;  // by the layer's outputs
    std::vector<EdgeReach> reach_;
  };

  // That of the output, where it is one: an input that is an output has another name.
  const std::string& name_of(ValueId id) const {
    const auto output = std::find(model_.outputs.begin(), model_.outputs.end(), id);
    if (output == model_.outputs.end()) return model_.value(id).name;
    return model_.output_names[static_cast<size_t>(output - model_.outputs.begin())];
  }

  void decide(Doubt& doubt) {
    const Graph layer = layer_of(model_, doubt.id, given_);
    const auto jumps = [&](const Node& node) { return may_jump(layer, node); };
    doubt.error.set_jumps(std::any_of(layer.nodes.begin(), layer.nodes.end(), jumps));
    doubt.error.set_spreads(std::any_of(layer.nodes.begin(), layer.nodes.end(), may_spread));
    Edges edges(*this, layer);
    const bool has_inner_steps = std::any_of(layer.nodes.begin(), layer.nodes.end(), bodies_round_to_steps);
    // How many elements take another step, or another place, is no matter of approximate tactics.
    const double clear = edges.any() || has_inner_steps || doubt.error.compared().exact ? 1 : clear_part;
    const auto is_clear = [&](const LayerError::Verdict& v) { return v.part <= clear && v.local <= 1; };
    LayerError::Verdict verdict;
    for (uint64_t run = 0; run < least_runs || (run < most_runs && verdict.telling && !is_clear(verdict)); ++run) {
      const std::vector<Tensor> noisy = with_noise_of(layer, run);
      doubt.error.add_moved(noisy.empty() ? Tensor() : noisy[0]);
      edges.move(noisy);
      if (has_inner_steps) doubt.error.add_steps(with_steps_of_bodies(layer, run));
      if (edges.any() && run + 1 >= least_runs) {
        Random random(rules_.seed + run);
        doubt.error.add_steps(edges.stepped(nullptr));
        doubt.error.add_steps(edges.stepped(&random));
      }
      verdict = doubt.error.judge();
    }
    if (!verdict.telling) {
      if (!doubt.error.compared().passed) ++verdict_.undecided;
      return;
    }
    const bool is_local = verdict.part <= 1 && verdict.local > 1;
    verdict_.worst = std::max(verdict_.worst, is_local ? verdict.local : verdict.part);
    if ((verdict.part <= 1 && !is_local) || !verdict_.culprit.empty()) return;
    std::string layer_text = engine_.layer_of(model_.value(doubt.id).name);
    if (layer_text.empty()) layer_text = fmt::format("output '{}'", name_of(doubt.id));
    const std::string error =
        is_local ? doubt.error.where()
                 : fmt::format("error {:.3g} of scale {:.3g}", verdict.error, doubt.error.compared().scale);
    verdict_.culprit = fmt::format("{}: {}", layer_text, error);
  }

  const Graph& model_;
  const LayerRules& rules_;
  ThreadPool& pool_;
  EngineTensors engine_;
  std::map<ValueId, Tensor> given_;     // the inputs, and the engine's tensors
  std::map<ValueId, Tensor> replaced_;  // outputs of the model as the reference has them, where the engine's are given
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

#include "build/verify_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "build/verification.h"
#include "camshaft/context.h"
#include "graph/widened.h"
#include "ops/evaluate.h"
#include "runtime/engine_impl.h"
#include "runtime/tensor_view.h"

namespace camshaft {

namespace {

constexpr size_t most_kept_bytes = size_t{4} << 30;
constexpr uint64_t most_noisy_runs = 2;

std::string describe(const PlanStep& step) {
  std::string sources;
  for (const std::string& s : step.sources) sources += (sources.empty() ? "" : ", ") + s;
  return fmt::format("layer '{}' ({}, tactic {}), from the model's nodes {}", step.name, step.op, step.tactic,
                     sources.empty() ? "-" : sources);
}

// [n, …, c] as [n, c, …].
Tensor channels_first(const Tensor& last) {
  Dims dims = last.dims();
  std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  Tensor made(last.dtype(), dims);
  const auto channels = static_cast<size_t>(dims[1]), images = static_cast<size_t>(dims[0]);
  const size_t size = byte_size(last.dtype(), 1);
  const size_t pixels = last.size() == 0 ? 0 : static_cast<size_t>(last.size()) / channels / images;
  const std::byte* from = last.data();
  for (size_t n = 0; n < images; ++n)
    for (size_t p = 0; p < pixels; ++p)
      for (size_t c = 0; c < channels; ++c, from += size)
        std::memcpy(made.mutable_data() + ((n * channels + c) * pixels + p) * size, from, size);
  return made;
}

// The model's value that a step computes. Passes that make a node anew call its result like the old one's with a number
// behind it; that it is made of the same node of the model is the proof. Null: none.
const Value* modelled(const std::string& name, const PlanStep& step, const Graph& model,
                      const std::map<std::string_view, std::pair<const Node*, ValueId>>& producers) {
  for (std::string_view stem = name;;) {
    if (const auto it = producers.find(stem); it != producers.end()) {
      const auto& [node, id] = it->second;
      const bool same = std::any_of(node->sources.begin(), node->sources.end(), [&](const std::string& source) {
        return std::find(step.sources.begin(), step.sources.end(), source) != step.sources.end();
      });
      if (same || (stem == name && step.sources.empty())) return &model.value(id);
    }
    const size_t end = stem.find_last_not_of("0123456789");
    if (end == std::string_view::npos || end == 0 || end + 1 == stem.size() || stem[end] != '_') return nullptr;
    stem = stem.substr(0, end);
  }
}

struct Computed {
  std::map<std::string, const PlanStep*> steps;  // by the name that the model has for what they compute
  std::map<std::string, Tensor> kept;            // the same
  std::vector<Tensor> outputs;
};

Computed run_engine(const Graph& model, const Engine& engine, const std::vector<Tensor>& inputs,
                    const LayerRules& rules, int threads) {
  std::map<std::string_view, std::pair<const Node*, ValueId>> producers;
  for (const Node& node : model.nodes)
    for (const ValueId id : node.outputs)
      if (id != no_value && !holds_objects(model.type(id).dtype)) producers[model.value(id).name] = {&node, id};
  Computed computed;
  const Plan& plan = engine.impl()->plan;
  std::map<std::string, std::string> taps;  // where several have one name, the last is complete
  for (const PlanStep& step : plan.steps)
    for (const int32_t id : step.outputs) {
      const PlanValue& value = plan.values[static_cast<size_t>(id)];
      const Value* found = value.storage == Storage::none ? nullptr : modelled(value.name, step, model, producers);
      if (!found) continue;
      taps[found->name] = value.name;
      computed.steps[found->name] = &step;
    }
  size_t bytes = 0;
  Context context = engine.create_context({threads});
  context.set_cancellation(rules.cancellation);
  for (size_t i = 0; i < inputs.size(); ++i) context.set_input(engine.inputs()[i].name, view_of(inputs[i]));
  for (const auto& [name, tapped] : taps)
    context.set_tap(tapped, [&, name = name](const TensorView& view) {
      if (bytes + view.bytes > most_kept_bytes) return;
      bytes += view.bytes;
      computed.kept[name] = copy_of(view);
    });
  context.run();
  for (const TensorInfo& info : engine.outputs()) computed.outputs.push_back(copy_of(context.output(info.name)));
  return computed;
}

struct Compared {
  Tensor expected;  // of a tensor that is outside the tolerance
  OutputError error;
};

class Judge {
 public:
  Judge(const Graph& model, const Engine& engine, const LayerRules& rules, const std::vector<Tensor>& inputs,
        ThreadPool& pool)
      : model_(model),
        rules_(rules),
        inputs_(inputs),
        pool_(pool),
        computed_(run_engine(model, engine, inputs, rules, pool.size())) {}

  LayersVerdict run() {
    evaluate_model(0, 0, [&](const std::string& name, const Tensor& expected, const Tensor& actual) {
      ++verdict_.judged;
      const OutputError error = compare(name, expected, actual);
      if (error.passed) {
        if (!error.exact) verdict_.worst = std::max(verdict_.worst, error.relative() / rules_.tolerance);
        return;
      }
      outside_[name] = {expected, error};
      order_.push_back(name);
    });
    std::map<std::string, OutputError> spread;
    for (uint64_t run = 0; run < most_noisy_runs && !outside_.empty(); ++run)
      evaluate_model(rules_.rounding_noise, rules_.seed + run,
                     [&](const std::string& name, const Tensor& moved, const Tensor&) {
                       const auto it = outside_.find(name);
                       if (it == outside_.end()) return;
                       const OutputError error = compare(name, it->second.expected, moved);
                       OutputError& most = spread.try_emplace(name, error).first->second;
                       if (error.relative() > most.relative()) most.max_error = error.max_error;
                       most.differing = std::max(most.differing, error.differing);
                     });
    for (const std::string& name : order_) decide(name, spread[name]);
    return verdict_;
  }

 private:
  OutputError compare(const std::string& name, const Tensor& expected, const Tensor& actual) const {
    return compare_outputs({name}, {expected}, {actual}, rules_.tolerance, rules_.rounding_noise)[0];
  }

  // The engine's tensor as the model has it; undefined when it is another one.
  Tensor aligned(const std::string& name, const Tensor& expected) const {
    const auto it = computed_.kept.find(name);
    if (it == computed_.kept.end() || !expected.defined()) return {};
    Tensor actual = it->second;
    if ((actual.dtype() == DType::f16 || actual.dtype() == DType::bf16) && expected.dtype() == DType::f32)
      actual = widened(actual);
    if (actual.dtype() != expected.dtype()) return {};
    Dims last = expected.dims();
    if (last.size() >= 3) std::rotate(last.begin() + 1, last.begin() + 2, last.end());
    const bool as_it_is = actual.dims() == expected.dims(), turned = last.size() >= 3 && actual.dims() == last;
    if (!turned) return as_it_is ? actual : Tensor();
    Tensor first = channels_first(actual);
    if (!as_it_is) return first;
    return compare(name, expected, first).relative() < compare(name, expected, actual).relative() ? first : actual;
  }

  // The evaluation of the model that goes on from the engine's tensors; `visit` sees its own before.
  template <class Visit>
  void evaluate_model(double noise, uint64_t seed, Visit&& visit) {
    EvaluateOptions options;
    options.cancellation = &rules_.cancellation;
    options.rounding_noise = noise;
    options.noise_seed = seed;
    std::set<std::string> seen;
    options.observer = [&](const Node& node, std::vector<Tensor>& outputs) {
      for (size_t o = 0; o < outputs.size() && o < node.outputs.size(); ++o) {
        if (node.outputs[o] == no_value) continue;
        const std::string& name = model_.value(node.outputs[o]).name;
        Tensor actual = aligned(name, outputs[o]);
        if (!actual.defined()) continue;
        visit(name, outputs[o], actual);
        seen.insert(name);
        outputs[o] = std::move(actual);
      }
    };
    const std::vector<Tensor> outputs = evaluate(model_, inputs_, pool_, options);
    for (size_t o = 0; o < outputs.size(); ++o)
      if (!seen.contains(model_.value(model_.outputs[o]).name))
        visit(model_.output_names[o], outputs[o], computed_.outputs[o]);
  }

  void decide(const std::string& name, const OutputError& spread) {
    const OutputError& error = outside_[name].error;
    const double allowed = error.exact ? 4 * spread.differing : std::max(rules_.tolerance, 4 * spread.relative());
    const double found = error.exact ? error.differing : error.relative();
    if (!error.exact && !(allowed <= most_telling(rules_.tolerance))) {
      ++verdict_.undecided;
      return;
    }
    verdict_.worst = std::max(verdict_.worst, found / allowed);
    if (found <= allowed || !verdict_.culprit.empty()) return;
    const auto step = computed_.steps.find(name);
    verdict_.culprit = step != computed_.steps.end() ? describe(*step->second) : fmt::format("output '{}'", name);
    verdict_.culprit += fmt::format(": error {:.3g} of scale {:.3g}", error.max_error, error.scale);
  }

  const Graph& model_;
  const LayerRules& rules_;
  const std::vector<Tensor>& inputs_;
  ThreadPool& pool_;
  const Computed computed_;
  std::map<std::string, Compared> outside_;  // the tolerance, by name
  std::vector<std::string> order_;           // of these, as the model computes them
  LayersVerdict verdict_;
};

}  // namespace

double most_telling(double tolerance) {
  return std::max(0.1, tolerance);
}

LayersVerdict verify_layers(const Graph& model, const Engine& engine, const std::vector<Tensor>& inputs,
                            const LayerRules& rules, ThreadPool& pool) {
  return Judge(model, engine, rules, inputs, pool).run();
}

}  // namespace camshaft

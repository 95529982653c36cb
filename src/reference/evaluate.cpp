#include "reference/evaluate.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "base/budget.h"
#include "base/error.h"
#include "base/work_scope.h"
#include "ir/container_type.h"
#include "ir/describe_node.h"
#include "ir/plugin.h"
#include "reference/operations.h"

namespace camshaft {

namespace {

std::string describe(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + shape[i].str();
  return out + "]";
}

[[noreturn]] void mismatch(const Shape& shape, const Dims& dims, const std::string& what, const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} has the shape {}, expected {}: {}", what, to_string(dims), describe(shape), why));
}

// Only the dims that are plain names.
void bind_names(const Shape& shape, const Dims& dims, const std::string& what, SymbolBindings& bindings) {
  if (shape.size() != dims.size()) mismatch(shape, dims, what, fmt::format("rank {} is needed", shape.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto symbol = shape[i].as_symbol();
    if (!symbol) continue;
    const auto [at, inserted] = bindings.emplace(*symbol, dims[i]);
    if (!inserted && at->second != dims[i])
      mismatch(shape, dims, what,
               fmt::format("'{}' is already {} (where one name stands for sizes that differ, build with such --shapes)",
                           *symbol, at->second));
  }
}

void check_dims(const Shape& shape, const Dims& dims, const std::string& what, const SymbolBindings& bindings) {
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t expected = shape[i].evaluate(bindings);
    if (expected != dims[i]) mismatch(shape, dims, what, fmt::format("axis {} must be {}", i, expected));
  }
}

// A result, which may be another than what was evaluated, moved by what noise does to that.
Tensor moved_by(const Tensor& result, const Tensor& exact, const Tensor& noisy) {
  Tensor moved(result.dtype(), result.dims());
  for (int64_t i = 0; i < result.size(); ++i) {
    const float by = noisy.as<float>()[i] - exact.as<float>()[i];
    moved.as_mutable<float>()[i] = result.as<float>()[i] + (std::isfinite(by) ? by : 0);
  }
  return moved;
}

void check_dtype(const Tensor& tensor, DType dtype, const std::string& what) {
  if (!tensor.defined()) throw Error(ErrorCode::invalid_argument, fmt::format("{} is missing", what));
  if (tensor.dtype() != dtype)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is {}, expected {}", what, to_string(tensor.dtype()), to_string(dtype)));
}

// Of moving these by noise.
double of_noise(const std::vector<Tensor>& results) {
  double operations = 0;
  for (const Tensor& result : results)
    if (is_floating(result.dtype())) operations += operations_of_noise * static_cast<double>(result.size());
  return operations;
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, ThreadPool& pool, const EvaluateOptions& options)
      : graph_(graph), pool_(pool), options_(options), bindings_(options.bindings), tensors_(graph.values.size()) {
    last_use_.assign(graph.values.size(), -1);
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      for (const ValueId id : graph.nodes[n].inputs)
        if (id != no_value) last_use_[static_cast<size_t>(id)] = static_cast<int64_t>(n);
    for (const ValueId id : graph.outputs)
      last_use_[static_cast<size_t>(id)] = static_cast<int64_t>(graph.nodes.size());
  }

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    take_inputs(inputs);
    if (const auto budget = graph_.nodes.empty() ? current_budget() : nullptr)
      budget->take_operations(least_operations);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) run_node(graph_.nodes[n], static_cast<int64_t>(n));
    std::vector<Tensor> outputs;
    for (const ValueId id : graph_.outputs) outputs.push_back(tensor(id));
    return outputs;
  }

 private:
  const Tensor& tensor(ValueId id) const {
    const Value& value = graph_.value(id);
    if (!value.constant) return tensors_[static_cast<size_t>(id)];
    if (value.constant->is_elided())
      throw Error(ErrorCode::internal, fmt::format("the constant '{}' exists in packed form only", value.name));
    return *value.constant;
  }

  void take_inputs(const std::vector<Tensor>& inputs) {
    if (inputs.size() != graph_.inputs.size())
      throw Error(ErrorCode::invalid_argument, fmt::format("the graph '{}' takes {} inputs, got {}", graph_.name,
                                                           graph_.inputs.size(), inputs.size()));
    const auto what = [&](size_t i) { return fmt::format("input '{}'", graph_.value(graph_.inputs[i]).name); };
    // All names first: one input's expression may use another's name.
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorType& type = graph_.type(graph_.inputs[i]);
      check_dtype(inputs[i], type.dtype, what(i));
      if (options_.checks_elements) check_elements(inputs[i], type, what(i));
      bind_names(type.shape, inputs[i].dims(), what(i), bindings_);
      tensors_[static_cast<size_t>(graph_.inputs[i])] = inputs[i];
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      check_dims(graph_.type(graph_.inputs[i]).shape, inputs[i].dims(), what(i), bindings_);
  }

  void run_node(const Node& node, int64_t index) {
    if (options_.cancellation) options_.cancellation->check("evaluating the model");
    std::vector<Tensor> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(id == no_value ? Tensor() : tensor(id));
    std::vector<TensorType> types;
    for (const ValueId id : node.outputs) types.push_back(graph_.type(id));
    std::vector<Tensor> outputs;
    Tensor scale;
    std::vector<Tensor> exact, noisy_sums;
    const RoundingNoise noise = options_.noise_of ? options_.noise_of(node) : options_.noise;
    try {
      const NoiseOfBodies of_bodies{options_.noise_of_bodies, noise_};
      const EvalContext context{inputs,
                                types,
                                bindings_,
                                node.bodies,
                                pool_,
                                options_.cancellation,
                                of_bodies.noise.of_results > 0 ? &of_bodies : nullptr};
      const auto budget = current_budget();
      const double expected = budget ? operations_of(graph_, node, bindings_) : 0;
      if (budget) budget->take_operations(expected);
      outputs = evaluate(node.op, context);
      if (noise.of_sums > 0) {
        scale = rounding_scale(node.op, context);
        noisy_sums = with_noisy_sums(node.op, context, outputs, noise.of_sums, noise_);
        if (!noisy_sums.empty()) exact = outputs;
      }
      if (budget && (noise.of_sums > 0 || noise.of_results > 0))
        budget->take_operations(of_noise(outputs) + (scale.defined() || !exact.empty() ? expected : 0));
      const size_t known_sizes = bindings_.size();
      check_outputs(node, types, outputs);
      if (budget && bindings_.size() > known_sizes)  // only now
        budget->take_operations(operations_of(graph_, node, bindings_) - expected);
    } catch (const PluginViolation& e) {
      throw PluginViolation(fmt::format("{}: {}", describe_node(node.sources, node.op), e.what()));
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("{}: {}", describe_node(node.sources, node.op), e.what()));
    }
    if (options_.observer) options_.observer(node, outputs);
    for (size_t i = 0; i < exact.size(); ++i) outputs[i] = moved_by(outputs[i], exact[i], noisy_sums[i]);
    if (noise.of_results > 0) {
      const auto whole_numbers = keeps_whole_numbers(node.op) ? WholeNumbers::stay : WholeNumbers::move;
      for (Tensor& output : outputs) output = with_noise(output, scale, noise, noise_, whole_numbers);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto id = static_cast<size_t>(node.outputs[i]);
      if (last_use_[id] > index) tensors_[id] = std::move(outputs[i]);
    }
    for (const ValueId id : node.inputs)
      if (id != no_value && last_use_[static_cast<size_t>(id)] == index) tensors_[static_cast<size_t>(id)] = Tensor();
  }

  void check_outputs(const Node& node, const std::vector<TensorType>& types, const std::vector<Tensor>& outputs) {
    if (outputs.size() < types.size())
      throw Error(ErrorCode::internal, fmt::format("it gave {} results, {} are needed", outputs.size(), types.size()));
    const auto what = [&](size_t i) { return fmt::format("output '{}'", graph_.value(node.outputs[i]).name); };
    for (size_t i = 0; i < types.size(); ++i) {
      check_dtype(outputs[i], types[i].dtype, what(i));
      bind_names(types[i].shape, outputs[i].dims(), what(i), bindings_);
    }
    for (size_t i = 0; i < types.size(); ++i) check_dims(types[i].shape, outputs[i].dims(), what(i), bindings_);
  }

  const Graph& graph_;
  ThreadPool& pool_;
  const EvaluateOptions& options_;
  SymbolBindings bindings_;
  Random noise_{options_.noise_seed};
  std::vector<Tensor> tensors_;    // by value; undefined before it is computed and after its last use
  std::vector<int64_t> last_use_;  // the node that reads a value last, or the number of nodes for outputs
};

}  // namespace

void bind_symbols(const Shape& shape, const Dims& dims, const std::string& what, SymbolBindings& bindings) {
  bind_names(shape, dims, what, bindings);
  check_dims(shape, dims, what, bindings);
}

std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& inputs, ThreadPool& pool,
                             const EvaluateOptions& options) {
  std::optional<WorkScope> scope;
  if (options.cancellation) scope.emplace(*options.cancellation);
  return Interpreter(graph, pool, options).run(inputs);
}

}  // namespace camshaft

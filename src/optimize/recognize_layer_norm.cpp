#include "optimize/recognize_layer_norm.h"

#include <algorithm>

#include "graph/rewriter.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "optimize/match.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

class Recognizer {
 public:
  explicit Recognizer(Graph& graph) : graph_(graph), uses_(graph), rewriter_(graph), producers_(graph) {}

  void run() {
    for (Node& node : rewriter_.nodes()) {
      const std::vector<ValueId> old_inputs = node.inputs;
      rewriter_.resolve(node);
      ValueId replacement = no_value;
      if (const auto* op = node.op.as<ops::Pointwise>()) {
        replacement = normalize(op->function, node);
        if (replacement == no_value) replacement = take_operand(op->function, node, old_inputs);
        if (replacement == no_value) replacement = multiplied_out(op->function, node);
      }
      if (replacement != no_value) {
        rewriter_.replace(node.outputs[0], replacement);
      } else {
        rewriter_.keep(std::move(node));
      }
    }
    rewriter_.finish();
  }

 private:
  // The inputs of the node that computes a value, if it applies `function`; empty if not.
  std::vector<ValueId> inputs_of(F function, ValueId id) {
    const auto* op = producers_.op<ops::Pointwise>(id);
    return op && op->function == function ? producers_.find(id)->inputs : std::vector<ValueId>();
  }

  // v of 1 / √v.
  ValueId inverse_root(ValueId id) {
    std::vector<ValueId> root = inputs_of(F::reciprocal, id);
    if (root.empty()) {
      const std::vector<ValueId> quotient = inputs_of(F::div, id);
      if (quotient.empty() || uniform_constant(graph_, quotient[0]) != 1.0) return no_value;
      root = {quotient[1]};
    }
    const std::vector<ValueId> v = inputs_of(F::sqrt, root[0]);
    return v.empty() ? no_value : v[0];
  }

  // The first of the axes that a mean with kept dims goes over, if they are the last ones; and what it is of.
  std::optional<std::pair<int64_t, ValueId>> mean_of(ValueId id) {
    const auto* op = producers_.op<ops::Reduce>(id);
    if (!op || op->kind != ops::ReduceKind::mean || !op->keep_dims || op->axes.empty()) return std::nullopt;
    const ValueId x = producers_.find(id)->inputs[0];
    const auto rank = static_cast<int64_t>(graph_.shape(x).size());
    for (size_t i = 0; i < op->axes.size(); ++i)
      if (op->axes[i] != rank - static_cast<int64_t>(op->axes.size() - i)) return std::nullopt;
    return std::pair(op->axes[0], x);
  }

  ValueId normalize(F function, const Node& node) {
    if (function == F::div) {
      const std::vector<ValueId> v = inputs_of(F::sqrt, node.inputs[1]);
      return v.empty() ? no_value : normalize(node.inputs[0], v[0], node);
    }
    if (function != F::mul) return no_value;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueId v = inverse_root(node.inputs[i]);
      if (v == no_value) continue;
      if (const ValueId y = normalize(node.inputs[1 - i], v, node); y != no_value) return y;
    }
    return no_value;
  }

  static bool is_float(const TensorType& type) { return type.dtype == DType::f32 || type.dtype == DType::f64; }

  // epsilon + the mean of the squares of `of` over the axes from `axis` on.
  struct Variance {
    ValueId of = no_value;
    int64_t axis = 0;
    double epsilon = 0;
  };
  std::optional<Variance> variance_of(ValueId v) {
    const std::vector<ValueId> sum = inputs_of(F::add, v);
    for (size_t i = 0; i < sum.size(); ++i) {
      const auto epsilon = uniform_constant(graph_, sum[i]);
      const auto mean = mean_of(sum[1 - i]);
      if (!epsilon || !(*epsilon >= 0) || !mean) continue;
      const std::vector<ValueId> square = inputs_of(F::mul, mean->second);
      if (!square.empty() && square[0] == square[1]) return Variance{square[0], mean->first, *epsilon};
    }
    return std::nullopt;
  }

  // d / √v
  ValueId normalize(ValueId d, ValueId v, const Node& node) {
    const TensorType type = graph_.type(d);
    const auto variance = variance_of(v);
    if (!variance || variance->of != d || type != graph_.type(node.outputs[0]) || !is_float(type)) return no_value;
    ops::LayerNorm norm{variance->axis, variance->epsilon, true};
    ValueId x = d;
    if (const std::vector<ValueId> difference = inputs_of(F::sub, d); !difference.empty()) {
      const auto centre = mean_of(difference[1]);
      if (centre && *centre == std::pair(variance->axis, difference[0]) && graph_.type(difference[0]) == type) {
        x = difference[0];
        norm.root_mean_square = false;
      }
    }
    return graph_.add(norm, {x}, graph_.value(node.outputs[0]).name, node.sources);
  }

  // As TensorFlow spells it: x g + (shift - m g) of the mean m, with g = scale / √v.
  ValueId multiplied_out(F function, const Node& node) {
    if (function != F::add) return no_value;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const std::vector<ValueId> product = inputs_of(F::mul, node.inputs[i]);
      const std::vector<ValueId> rest = inputs_of(F::sub, node.inputs[1 - i]);
      if (product.empty() || rest.empty()) continue;
      const std::vector<ValueId> centre = inputs_of(F::mul, rest[1]);
      if (centre.empty()) continue;
      for (const size_t j : {size_t{0}, size_t{1}})
        for (const size_t k : {size_t{0}, size_t{1}}) {
          if (product[j] != centre[k]) continue;
          const ValueId y = multiplied_out(product[1 - j], centre[1 - k], product[j], rest[0], node);
          if (y != no_value) return y;
        }
    }
    return no_value;
  }

  ValueId multiplied_out(ValueId x, ValueId mean, ValueId factor, ValueId shift, const Node& node) {
    const TensorType type = graph_.type(x);
    const auto of = mean_of(mean);
    if (!of || of->second != x || type != graph_.type(node.outputs[0]) || !is_float(type)) return no_value;
    ValueId scale = no_value, v = inverse_root(factor);
    const std::vector<ValueId> scaled = inputs_of(F::mul, factor);
    for (size_t i = 0; i < scaled.size() && v == no_value; ++i)
      if (v = inverse_root(scaled[i]); v != no_value) scale = scaled[1 - i];
    const auto moments = v == no_value ? std::nullopt : variance_of(v);
    if (!moments || moments->axis != of->first) return no_value;
    const std::vector<ValueId> difference = inputs_of(F::sub, moments->of);
    if (difference.empty() || difference[0] != x || mean_of(difference[1]) != of) return no_value;
    const ValueId scales = scale == no_value ? no_value : row(scale, type, of->first);
    const ValueId shifts = row(shift, type, of->first);
    if ((scale != no_value && scales == no_value) || shifts == no_value) return no_value;
    return graph_.add(ops::LayerNorm{of->first, moments->epsilon, false}, {x, scales, shifts},
                      graph_.value(node.outputs[0]).name, node.sources);
  }

  ValueId take_operand(F function, const Node& node, const std::vector<ValueId>& old_inputs) {
    if (function != F::mul && function != F::add) return no_value;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueId x = node.inputs[i];
      const auto* op = producers_.op<ops::LayerNorm>(x);
      if (!op || !uses_.single(old_inputs[i]) || graph_.type(x) != graph_.type(node.outputs[0])) continue;
      const Node norm = *producers_.find(x);
      std::vector<ValueId> inputs = norm.inputs;
      inputs.resize(3, no_value);
      // A shift is added after the scale; there is none where the mean is not taken.
      const size_t slot = function == F::mul ? 1 : 2;
      if (inputs[slot] != no_value || inputs[2] != no_value || (slot == 2 && op->root_mean_square)) continue;
      inputs[slot] = row(node.inputs[1 - i], graph_.type(x), op->axis);
      if (inputs[slot] == no_value) continue;
      while (inputs.back() == no_value) inputs.pop_back();
      return graph_.add(norm.op, inputs, graph_.value(node.outputs[0]).name,
                        merged_sources(norm.sources, node.sources));
    }
    return no_value;
  }

  // A constant that holds one number an element of the normalised axes, in their shape.
  ValueId row(ValueId id, const TensorType& type, int64_t axis) {
    const Shape shape(type.shape.begin() + axis, type.shape.end());
    if (!is_readable_constant(graph_, id) || !is_static(shape) || graph_.type(id).dtype != type.dtype) return no_value;
    const Tensor& t = *graph_.value(id).constant;
    if (t.dims().size() < shape.size() || t.dims().size() > type.shape.size()) return no_value;
    const size_t lead = t.dims().size() - shape.size();
    Dims dims;
    for (size_t d = 0; d < t.dims().size(); ++d) {
      if (d < lead ? t.dims()[d] != 1 : t.dims()[d] != shape[d - lead].value()) return no_value;
      if (d >= lead) dims.push_back(t.dims()[d]);
    }
    return lead == 0 ? id : graph_.add_constant(graph_.value(id).name, t.reshaped(dims));
  }

  Graph& graph_;
  Uses uses_;
  Rewriter rewriter_;
  Producers producers_;
};

}  // namespace

void recognize_layer_norm(Graph& graph, const PassContext&) {
  Recognizer(graph).run();
}

}  // namespace camshaft

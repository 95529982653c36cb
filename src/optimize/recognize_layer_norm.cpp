#include "optimize/recognize_layer_norm.h"

#include <algorithm>

#include "graph/rewriter.h"
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "optimize/match.h"
#include "optimize/match_moments.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

class Recognizer {
 public:
  explicit Recognizer(Graph& graph)
      : graph_(graph), uses_(graph), rewriter_(graph), producers_(graph), moments_(graph, producers_) {}

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
      if (const auto* cast = node.op.as<ops::Cast>()) replacement = between_casts(*cast, node, old_inputs[0]);
      if (replacement != no_value) {
        rewriter_.replace(node.outputs[0], replacement);
      } else {
        rewriter_.keep(std::move(node));
      }
    }
    rewriter_.finish();
  }

 private:
  // Something times one number an element of the rows, or times nothing.
  struct Scaled {
    ValueId value = no_value, scale = no_value;
  };

  // v of 1 / √v, or of scale / √v. The scale may be any value.
  std::optional<Scaled> inverse_root(ValueId id) {
    if (const ValueId v = plain_inverse_root(id); v != no_value) return Scaled{v};
    if (const std::vector<ValueId> quotient = producers_.inputs_of(F::div, id); !quotient.empty())
      if (const auto v = producers_.inputs_of(F::sqrt, quotient[1]); !v.empty()) return Scaled{v[0], quotient[0]};
    const std::vector<ValueId> product = producers_.inputs_of(F::mul, id);
    for (size_t i = 0; i < product.size(); ++i)
      if (const ValueId v = plain_inverse_root(product[i]); v != no_value) return Scaled{v, product[1 - i]};
    return std::nullopt;
  }

  ValueId plain_inverse_root(ValueId id) {
    if (const auto power = producers_.inputs_of(F::pow, id);
        !power.empty() && uniform_constant(graph_, power[1]) == -0.5)
      return power[0];
    const ValueId root = inverse(id);
    if (root != no_value) {
      const std::vector<ValueId> v = producers_.inputs_of(F::sqrt, root);
      return v.empty() ? no_value : v[0];
    }
    const std::vector<ValueId> v = producers_.inputs_of(F::sqrt, id);
    return v.empty() ? no_value : inverse(v[0]);
  }

  // x of 1 / x.
  ValueId inverse(ValueId id) {
    if (const auto x = producers_.inputs_of(F::reciprocal, id); !x.empty()) return x[0];
    const std::vector<ValueId> quotient = producers_.inputs_of(F::div, id);
    return !quotient.empty() && uniform_constant(graph_, quotient[0]) == 1.0 ? quotient[1] : no_value;
  }

  ValueId normalize(F function, const Node& node) {
    if (function == F::div) {
      const std::vector<ValueId> v = producers_.inputs_of(F::sqrt, node.inputs[1]);
      return v.empty() ? no_value : normalize(node.inputs[0], {v[0]}, node);
    }
    if (function != F::mul) return no_value;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const auto inverse = inverse_root(node.inputs[i]);
      if (!inverse) continue;
      if (const ValueId y = normalize(node.inputs[1 - i], *inverse, node); y != no_value) return y;
    }
    return no_value;
  }

  static bool is_float(const TensorType& type) { return type.dtype == DType::f32 || type.dtype == DType::f64; }

  // d · scale / √v, where d may be a product with the scale instead.
  ValueId normalize(ValueId d, const Scaled& inverse, const Node& node) {
    const auto variance = moments_.variance_of(inverse.value);
    if (!variance) return no_value;
    if (is_numerator(d, *variance)) return add_norm(*variance, inverse.scale, node);
    const std::vector<ValueId> product = producers_.inputs_of(F::mul, d);
    for (size_t i = 0; i < product.size() && inverse.scale == no_value; ++i)
      if (is_numerator(product[i], *variance)) return add_norm(*variance, product[1 - i], node);
    return no_value;
  }

  bool is_numerator(ValueId d, const Variance& variance) {
    if (!variance.is_centred) return d == variance.of;
    const auto x = moments_.centred(d);
    return x && x->of == variance.of && x->axis == variance.axis;
  }

  ValueId add_norm(const Variance& variance, ValueId scale, const Node& node) {
    const TensorType type = graph_.type(variance.of);
    if (type != graph_.type(node.outputs[0]) || !is_float(type)) return no_value;
    std::vector<ValueId> inputs{variance.of};
    if (scale != no_value) inputs.push_back(row(scale, type, variance.axis));
    if (inputs.back() == no_value) return no_value;
    return graph_.add(ops::LayerNorm{variance.axis, variance.epsilon, !variance.is_centred}, std::move(inputs),
                      graph_.value(node.outputs[0]).name, node.sources);
  }

  // As TensorFlow spells it: x g + (shift - m g) of the mean m, with g = scale / √v.
  ValueId multiplied_out(F function, const Node& node) {
    if (function != F::add) return no_value;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const std::vector<ValueId> product = producers_.inputs_of(F::mul, node.inputs[i]);
      const std::vector<ValueId> rest = producers_.inputs_of(F::sub, node.inputs[1 - i]);
      if (product.empty() || rest.empty()) continue;
      const std::vector<ValueId> centre = producers_.inputs_of(F::mul, rest[1]);
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
    const auto of = moments_.mean_of(mean);
    if (!of || *of != Mean{x, of->axis} || type != graph_.type(node.outputs[0]) || !is_float(type)) return no_value;
    const auto inverse = inverse_root(factor);
    const auto variance = inverse ? moments_.variance_of(inverse->value) : std::nullopt;
    if (!variance || !variance->is_centred || variance->of != x || variance->axis != of->axis) return no_value;
    const ValueId scales = inverse->scale == no_value ? no_value : row(inverse->scale, type, of->axis);
    const ValueId shifts = row(shift, type, of->axis);
    if ((inverse->scale != no_value && scales == no_value) || shifts == no_value) return no_value;
    return graph_.add(ops::LayerNorm{of->axis, variance->epsilon, false}, {x, scales, shifts},
                      graph_.value(node.outputs[0]).name, node.sources);
  }

  // A norm of half-precision rows that a model computes in f32 takes and gives them as they are: it has its statistics
  // in f32 all the same.
  ValueId between_casts(const ops::Cast& cast, const Node& node, ValueId old_input) {
    const auto* op = producers_.op<ops::LayerNorm>(node.inputs[0]);
    if (!op || !uses_.single(old_input) || (cast.to != DType::f16 && cast.to != DType::bf16)) return no_value;
    const Node norm = *producers_.find(node.inputs[0]);
    if (norm.inputs.size() != 1 || graph_.type(norm.inputs[0]).dtype != DType::f32) return no_value;
    if (!producers_.op<ops::Cast>(norm.inputs[0])) return no_value;
    const ValueId x = producers_.find(norm.inputs[0])->inputs[0];
    if (graph_.type(x) != graph_.type(node.outputs[0])) return no_value;
    return graph_.add(norm.op, {x}, graph_.value(node.outputs[0]).name, merged_sources(norm.sources, node.sources));
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
  MomentMatcher moments_;
};

}  // namespace

void recognize_layer_norm(Graph& graph, const PassContext&) {
  Recognizer(graph).run();
}

}  // namespace camshaft

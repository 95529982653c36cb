#include "optimize/recognize/recognize_layer_norm.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"
#include "optimize/analysis/match_moments.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

class LayerNormRecognizer {
 public:
  LayerNormRecognizer(Graph& graph, ThreadPool& pool)
      : graph_(graph), pool_(pool), uses_(graph), rewriter_(graph), producers_(graph), moments_(graph, producers_) {}

  void run() {
    rewriter_.replace_each(
        [&](const Node& node, const std::vector<ValueId>& old_inputs) { return recognize(node, old_inputs); });
  }

 private:
  ValueId recognize(const Node& node, const std::vector<ValueId>& old_inputs) {
    if (const auto* cast = node.op.as<ops::Cast>()) return between_casts(*cast, node, old_inputs[0]);
    const auto* op = node.op.as<ops::Pointwise>();
    if (!op) return no_value;
    if (const ValueId norm = normalize(op->function, node); norm != no_value) return norm;
    if (const ValueId norm = take_operand(op->function, node, old_inputs); norm != no_value) return norm;
    return multiplied_out(op->function, node);
  }

  // scale / √variance. The scale may be any value, or none.
  struct InverseRoot {
    Variance variance;
    ValueId scale = no_value;
  };

  std::optional<InverseRoot> inverse_root(ValueId id) {
    if (const auto v = plain_inverse_root(id)) return InverseRoot{*v};
    if (const std::vector<ValueId> quotient = producers_.inputs_of(F::div, id); !quotient.empty())
      if (const auto v = moments_.variance_of_root(quotient[1])) return InverseRoot{*v, quotient[0]};
    const std::vector<ValueId> product = producers_.inputs_of(F::mul, id);
    for (size_t i = 0; i < product.size(); ++i)
      if (const auto v = plain_inverse_root(product[i])) return InverseRoot{*v, product[1 - i]};
    return std::nullopt;
  }

  std::optional<Variance> plain_inverse_root(ValueId id) {
    if (const auto power = producers_.inputs_of(F::pow, id);
        !power.empty() && uniform_constant(graph_, power[1]) == -0.5)
      return moments_.variance_of(power[0]);
    if (const ValueId root = producers_.input_of_reciprocal(id); root != no_value)
      return moments_.variance_of_root(root);
    const std::vector<ValueId> v = producers_.inputs_of(F::sqrt, id);
    const ValueId under = v.empty() ? no_value : producers_.input_of_reciprocal(v[0]);
    return under == no_value ? std::nullopt : moments_.variance_of(under);
  }

  ValueId normalize(F function, const Node& node) {
    if (function == F::div) {
      const auto v = moments_.variance_of_root(node.inputs[1]);
      return v ? normalize(node.inputs[0], {*v}, node) : no_value;
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
  ValueId normalize(ValueId d, const InverseRoot& inverse, const Node& node) {
    if (is_numerator(d, inverse.variance)) return add_norm(inverse.variance, inverse.scale, node);
    const std::vector<ValueId> product = producers_.inputs_of(F::mul, d);
    for (size_t i = 0; i < product.size() && inverse.scale == no_value; ++i)
      if (is_numerator(product[i], inverse.variance)) return add_norm(inverse.variance, product[1 - i], node);
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
    if (variance.count != 1) inputs = {variance.of, divided_by_root(variance, scale == no_value ? scale : inputs[1])};
    if (inputs.back() == no_value) return no_value;
    const ops::LayerNorm norm{variance.axis, variance.epsilon, !variance.is_centred, variance.is_clamped};
    return graph_.add(norm, std::move(inputs), graph_.value(node.outputs[0]).name, node.sources);
  }

  // The scale of a norm whose squares were summed: over the root of their number.
  ValueId divided_by_root(const Variance& variance, ValueId scale) {
    const TensorType type = graph_.type(variance.of);
    if (scale == no_value) scale = row(add_scalar(graph_, type.dtype, 1), type, variance.axis);
    return scale == no_value ? no_value
                             : multiplied(scale, add_scalar(graph_, type.dtype, 1 / std::sqrt(variance.count)));
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
    const Variance* const variance = inverse ? &inverse->variance : nullptr;
    if (!variance || !variance->is_centred || variance->count != 1 || variance->of != x || variance->axis != of->axis)
      return no_value;
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
      if (inputs[2] != no_value || (slot == 2 && op->root_mean_square)) continue;
      const ValueId operand = row(node.inputs[1 - i], graph_.type(x), op->axis);
      if (operand == no_value || (inputs[slot] != no_value && !is_readable_constant(graph_, inputs[slot]))) continue;
      inputs[slot] = inputs[slot] == no_value ? operand : multiplied(inputs[slot], operand);
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
    if (t.dims().size() > type.shape.size()) return no_value;
    Dims dims;
    for (const Dim& d : shape) dims.push_back(d.value());
    if (t.size() == 1) return repeated(id, dims);
    if (t.dims().size() < shape.size()) return no_value;
    const size_t lead = t.dims().size() - shape.size();
    for (size_t d = 0; d < t.dims().size(); ++d)
      if (t.dims()[d] != (d < lead ? 1 : dims[d - lead])) return no_value;
    return lead == 0 ? id
                     : graph_.add_constant(graph_.value(id).name, derive_reshaped(graph_.constant(id), dims, pool_));
  }

  ValueId repeated(ValueId number, const Dims& dims) {
    constexpr int64_t most = 1 << 20;
    if (element_count(dims) > most) return no_value;
    const Constant scalar = derive_reshaped(graph_.constant(number), {}, pool_);
    return graph_.add_constant(graph_.value(number).name,
                               derive(ops::Expand{Shape(dims.begin(), dims.end())}, {scalar}, pool_));
  }

  // Two constants; the second may have one element.
  ValueId multiplied(ValueId a, ValueId b) {
    Constant factor = graph_.constant(b);
    if (factor.tensor->size() == 1) factor = derive_reshaped(factor, {}, pool_);
    return graph_.add_constant(graph_.value(a).name, derive(ScalarFunction::mul, {graph_.constant(a), factor}, pool_));
  }

  Graph& graph_;
  ThreadPool& pool_;
  Uses uses_;
  Rewriter rewriter_;
  Producers producers_;
  MomentMatcher moments_;
};

}  // namespace

void recognize_layer_norm(Graph& graph, const PassContext& context) {
  LayerNormRecognizer(graph, context.pool).run();
}

}  // namespace camshaft

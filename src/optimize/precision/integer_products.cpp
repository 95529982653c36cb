#include "optimize/precision/integer_products.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "ir/ops/contract.h"
#include "ir/ops/float8.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"
#include "ir/replaceable.h"
#include "ir/rewriter.h"
#include "optimize/analysis/quantized.h"
#include "reference/element_io.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

// sum · scale, or sum · scale + bias.
struct ScaledSum {
  ValueId sum = no_value;  // as f32
  ValueId scale = no_value, bias = no_value;
};

// max(x, number) or min(x, number).
struct Bound {
  F function;
  double number;
  ValueId constant;
};

class IntegerProducts {
 public:
  IntegerProducts(Graph& graph, const TakesSteps& takes)
      : graph_(graph), takes_(takes), uses_(graph), rewriter_(graph), producers_(graph) {}

  void run() {
    for (Node& node : rewriter_.nodes()) {
      rewriter_.resolve(node);
      for (Graph& body : node.bodies) IntegerProducts(body, takes_).run();
      const ValueId old = node.outputs.empty() ? no_value : node.outputs[0];
      node_ = &node;
      std::optional<ScaledSum> sum;
      if (const auto* conv = node.op.as<ops::Conv>()) sum = convolution(*conv);
      if (const auto* matmul = node.op.as<ops::MatMul>()) sum = product(*matmul);
      ValueId replacement = no_value;
      if (sum) {
        replacement = scaled(*sum);
        sums_[replacement] = *sum;
        is_single_[replacement] = uses_.single(old);
      } else if (const auto* quantize = node.op.as<ops::Quantize>()) {
        replacement = rounded(*quantize);
      }
      if (replacement == no_value) {
        rewriter_.keep(std::move(node));
      } else {
        rewriter_.replace(old, replacement);
      }
    }
    rewriter_.finish();
  }

 private:
  std::string name() const { return graph_.value(node_->outputs[0]).name; }
  ValueId add(Op op, std::vector<ValueId> inputs) {
    return graph_.add(std::move(op), std::move(inputs), name(), node_->sources);
  }
  ValueId apply(F function, ValueId a, ValueId b) { return add(ops::Pointwise{function}, {a, b}); }

  std::optional<Steps> bytes_of(ValueId id) {
    auto steps = dequantized(graph_, producers_, id);
    return steps && (is_byte(graph_.type(steps->steps).dtype) || is_float8(*steps)) ? steps : std::nullopt;
  }

  bool is_float8(const Steps& steps) const { return ops::is_float8(graph_.type(steps.steps).dtype); }
  // Sums of 8-bit floats have no terms for zero points.
  bool has_no_zero(const Steps& steps) const {
    const ValueId zero = steps.parameters.zero;
    return zero == no_value || uniform_constant(graph_, zero) == 0.0;
  }
  // Whether both are integers, or both floats of one type.
  bool can_be_multiplied(const Steps& a, const Steps& b) const {
    if (!is_float8(a)) return !is_float8(b);
    return graph_.type(a.steps).dtype == graph_.type(b.steps).dtype && has_no_zero(a) && has_no_zero(b);
  }

  // Parameters of one number, or of one for each index of `axis`.
  bool fits(const QuantizationParameters& parameters, int64_t axis) const {
    if (is_per_tensor(graph_, parameters)) return true;
    const auto is_vector = [&](ValueId id) { return id == no_value || graph_.shape(id).size() == 1; };
    return parameters.axis == axis && is_vector(parameters.scale) && is_vector(parameters.zero);
  }

  // The largest that a step can differ from its zero point.
  double largest(const Steps& steps) const {
    const ops::StepRange range = ops::step_range(graph_.type(steps.steps).dtype);
    const ValueId id = steps.parameters.zero;
    const auto zero = id == no_value ? std::optional(0.0) : uniform_constant(graph_, id);
    return zero ? std::max(range.highest - *zero, *zero - range.lowest) : range.highest - range.lowest;
  }

  // Whether sums of so many products, and of `more`, cannot leave i32.
  bool can_be_summed(const Steps& x, const Steps& weights, double count, double more = 0) const {
    if (is_float8(x)) return true;
    return count * largest(x) * largest(weights) + more <= std::numeric_limits<int32_t>::max();
  }

  static std::optional<double> product_of(const Shape& shape, size_t from) {
    double count = 1;
    for (size_t i = from; i < shape.size(); ++i) {
      const auto size = shape[i].as_constant();
      if (!size) return std::nullopt;
      count *= static_cast<double>(*size);
    }
    return count;
  }

  ValueId reshaped(ValueId id, Shape shape) {
    return graph_.shape(id) == shape ? id : add(ops::Reshape{std::move(shape)}, {id});
  }
  // One number an output channel, to stand beside a result of `rank` axes.
  ValueId channels(ValueId id, size_t rank, bool channels_last) {
    if (graph_.shape(id).empty() || channels_last) return id;
    Shape shape(rank - 1, Dim(1));
    shape[0] = graph_.shape(id)[0];
    return reshaped(id, std::move(shape));
  }

  std::optional<ScaledSum> convolution(const ops::Conv& op) {
    const auto x = bytes_of(node_->inputs[0]), weights = bytes_of(node_->inputs[1]);
    if (!x || !weights || !is_per_tensor(graph_, x->parameters) || !fits(weights->parameters, 0) ||
        !can_be_multiplied(*x, *weights) || !takes_(graph_, Op(op), *x, *weights))
      return std::nullopt;
    const Shape shape = graph_.shape(weights->steps);
    const auto count = product_of(shape, 1);
    if (!count || !can_be_summed(*x, *weights, *count)) return std::nullopt;
    const ValueId x_scale = x->parameters.scale, scale = weights->parameters.scale;
    const ValueId bias = node_->inputs.size() > 2 ? node_->inputs[2] : no_value;
    const ValueId summed = bias == no_value ? no_value : bias_of_sums(bias, *x, *weights, *count);
    ScaledSum result;
    if (is_float8(*x)) {
      result.sum = add(ops::Float8Conv{op.strides, op.pads, op.dilations, op.groups, op.channels_last},
                       {x->steps, weights->steps});
    } else {
      const ValueId sum = add(ops::IntegerConv{op.strides, op.pads, op.dilations, op.groups, op.channels_last},
                              {x->steps, weights->steps, x->parameters.zero, weights->parameters.zero, summed});
      result.sum = add(ops::Cast{DType::f32}, {sum});
    }
    result.scale = apply(F::mul, x_scale, channels(scale, shape.size(), op.channels_last));
    if (bias != no_value && summed == no_value) result.bias = channels(bias, shape.size(), op.channels_last);
    return result;
  }

  // The steps of a bias whose scale is that of the sums, up to the rounding of a product of two scales.
  ValueId bias_of_sums(ValueId bias, const Steps& x, const Steps& weights, double count) {
    const auto steps = dequantized(graph_, producers_, bias);
    if (!steps || graph_.type(steps->steps).dtype != DType::i32 || is_float8(x)) return no_value;
    const auto& [scale, zero, axis] = steps->parameters;
    for (const ValueId id : {steps->steps, scale, x.parameters.scale, weights.parameters.scale})
      if (!is_readable_constant(graph_, id)) return no_value;
    if (zero != no_value && uniform_constant(graph_, zero) != 0.0) return no_value;
    const std::vector<double> numbers = elements(steps->steps), of_bias = elements(scale),
                              of_x = elements(x.parameters.scale), of_weights = elements(weights.parameters.scale);
    double most = 0;
    for (const double number : numbers) most = std::max(most, std::abs(number));
    if (!can_be_summed(x, weights, count, most)) return no_value;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto at = [&](const std::vector<double>& all) { return all.size() == 1 ? all[0] : all.at(i); };
      const double wanted = of_x[0] * at(of_weights);
      constexpr double rounding = 0x1p-22;
      if (!(std::abs(at(of_bias) - wanted) <= rounding * wanted)) return no_value;
    }
    return steps->steps;
  }

  std::vector<double> elements(ValueId id) const {
    const Tensor& t = *graph_.value(id).constant;
    fix_numbers(graph_, id, "a bias and scales of a sum of integers");
    std::vector<double> values(static_cast<size_t>(t.size()));
    ops::load_elements(t.dtype(), t.data(), 0, 1, t.size(), values.data());
    return values;
  }

  ValueId transposed(ValueId id) {
    const size_t rank = graph_.shape(id).size();
    ops::Transpose op;
    for (size_t i = 0; i < rank; ++i) op.permutation.push_back(static_cast<int64_t>(i));
    std::swap(op.permutation[rank - 1], op.permutation[rank - 2]);
    return add(op, {id});
  }

  std::optional<ScaledSum> product(const ops::MatMul& op) {
    const auto a = bytes_of(node_->inputs[0]), b = bytes_of(node_->inputs[1]);
    if (!a || !b) return std::nullopt;
    const auto rank = static_cast<int64_t>(graph_.shape(b->steps).size());
    const bool is_vector = !is_per_tensor(graph_, b->parameters);
    if (!is_per_tensor(graph_, a->parameters) || !fits(b->parameters, op.transpose_b ? rank - 2 : rank - 1) ||
        (is_vector && rank != 2) || !can_be_multiplied(*a, *b) || !takes_(graph_, Op(op), *a, *b))
      return std::nullopt;
    const Dim depth = graph_.shape(b->steps)[static_cast<size_t>(op.transpose_b ? rank - 1 : rank - 2)];
    const auto count = depth.as_constant();
    if (!count || !can_be_summed(*a, *b, static_cast<double>(*count))) return std::nullopt;
    ScaledSum result;
    const ValueId left = op.transpose_a ? transposed(a->steps) : a->steps,
                  right = op.transpose_b ? transposed(b->steps) : b->steps;
    if (is_float8(*a)) {
      result.sum = add(ops::Float8MatMul{}, {left, right});
    } else {
      const ValueId sum = add(ops::IntegerMatMul{}, {left, right, a->parameters.zero, b->parameters.zero});
      result.sum = add(ops::Cast{DType::f32}, {sum});
    }
    result.scale = apply(F::mul, a->parameters.scale, b->parameters.scale);
    return result;
  }

  ValueId scaled(const ScaledSum& sum) {
    const ValueId product = apply(F::mul, sum.sum, sum.scale);
    return sum.bias == no_value ? product : apply(F::add, product, sum.bias);
  }

  // A Quantize behind such a sum: its scale goes into the factor.
  ValueId rounded(const ops::Quantize& op) {
    const ValueId scale = node_->inputs[1], zero = node_->inputs.size() > 2 ? node_->inputs[2] : no_value;
    const auto size = uniform_constant(graph_, scale);
    const auto offset = zero == no_value ? std::optional(0.0) : uniform_constant(graph_, zero);
    // Of a smaller scale's quotient, which may be infinite, 0 would be NaN where it is 0 as ONNX divides.
    constexpr double least_scale = 0x1p-100;
    const bool is_float = ops::is_float8(op.dtype) && op.saturate && offset == 0.0 && size && *size >= least_scale;
    if ((!is_byte(op.dtype) && !is_float) || op.block != 0 || op.precision != DType::f32 || !graph_.shape(scale).empty() || !size ||
        !(*size > 0) || !offset)
      return no_value;
    ValueId x = node_->inputs[0];
    std::vector<Bound> bounds;  // the last one first
    while (const auto bound = bound_of(x)) {
      bounds.push_back(bound->first);
      x = bound->second;
    }
    if (const auto added = bias_behind(x)) {
      x = added->first;
      ScaledSum sum = sums_.at(x);
      sum.bias = added->second;
      return steps_of(op, sum, bounds, *size, *offset);
    }
    const auto known = sums_.find(x);
    if (known == sums_.end() || !is_read_once(x)) return no_value;
    return steps_of(op, known->second, bounds, *size, *offset);
  }

  // The bias that follows a product: what a constant adds to each column.
  std::optional<std::pair<ValueId, ValueId>> bias_behind(ValueId x) {
    const std::vector<ValueId> operands = producers_.inputs_of(F::add, x);
    if (operands.empty() || !is_read_once(x) || sums_.contains(x)) return std::nullopt;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueId sum = operands[i], other = operands[1 - i];
      const auto known = sums_.find(sum);
      if (known == sums_.end() || known->second.bias != no_value || !is_read_once(sum)) continue;
      const bool is_constant = is_readable_constant(graph_, other) || producers_.op<ops::Dequantize>(other);
      if (is_constant && graph_.shape(other).size() <= 1 && graph_.shape(x) == graph_.shape(sum))
        return std::pair(sum, other);
    }
    return std::nullopt;
  }

  ValueId steps_of(const ops::Quantize& op, const ScaledSum& sum, const std::vector<Bound>& bounds, double size,
                   double offset) {
    const ValueId scale = node_->inputs[1];
    ScaledSum in_steps{sum.sum, apply(F::div, sum.scale, scale), no_value};
    if (sum.bias != no_value) in_steps.bias = apply(F::div, sum.bias, scale);
    ValueId steps = scaled(in_steps);
    const ops::StepRange range = ops::is_float8(op.dtype) ? largest_float8(op.dtype) : ops::step_range(op.dtype);
    for (size_t i = bounds.size(); i-- > 0;) {
      const double bound = bounds[i].number / size, step = std::nearbyint(bound) + offset;
      const bool is_lower = bounds[i].function == F::max;
      if (is_lower ? step <= range.lowest : step >= range.highest) continue;  // what the type bounds already
      steps = apply(bounds[i].function, steps, apply(F::div, bounds[i].constant, scale));
    }
    std::vector<ValueId> inputs{steps, add_scalar(graph_, DType::f32, 1)};
    if (node_->inputs.size() > 2 && !ops::is_float8(op.dtype)) inputs.push_back(node_->inputs[2]);
    return add(op, std::move(inputs));
  }

  static ops::StepRange largest_float8(DType dtype) {
    const double most = dtype == DType::f8e4m3 ? 448 : 57344;
    return {-most, most};
  }

  std::optional<std::pair<Bound, ValueId>> bound_of(ValueId x) {
    if (!is_read_once(x)) return std::nullopt;
    for (const F function : {F::max, F::min}) {
      const std::vector<ValueId> operands = producers_.inputs_of(function, x);
      for (size_t i = 0; i < operands.size(); ++i) {
        const auto number = uniform_constant(graph_, operands[i]);
        if (number && std::isfinite(*number) && graph_.shape(operands[1 - i]) == graph_.shape(x))
          return std::pair(Bound{function, *number, operands[i]}, operands[1 - i]);
      }
    }
    return std::nullopt;
  }

  bool is_read_once(ValueId id) const {
    const auto made = is_single_.find(id);
    return made != is_single_.end() ? made->second : static_cast<size_t>(id) < uses_.readers.size() && uses_.single(id);
  }

  Graph& graph_;
  const TakesSteps& takes_;
  const Uses uses_;
  Rewriter rewriter_;
  Producers producers_;
  const Node* node_ = nullptr;  // that is looked at
  std::unordered_map<ValueId, ScaledSum> sums_;
  std::unordered_map<ValueId, bool> is_single_;  // of values that took another's place
};

}  // namespace

void integer_products_where(Graph& graph, const TakesSteps& takes) {
  IntegerProducts(graph, takes).run();
}

void integer_products(Graph& graph, const PassContext&) {
  integer_products_where(graph, [](const Graph& all, const Op&, const Steps& x, const Steps&) {
    return is_byte(all.type(x.steps).dtype);
  });
}

}  // namespace camshaft

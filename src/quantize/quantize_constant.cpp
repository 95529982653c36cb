#include "quantize/quantize_constant.h"

#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "ir/ops/reduce.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

// Where all numbers are 0 the scale is this one: their steps are all 0, whatever it is.
constexpr double smallest_scale = 0x1p-100;

}  // namespace

QuantizedConstant quantize_constant(Graph& graph, ValueId constant, int64_t axis,
                                    const std::vector<std::string>& sources, ValueId least, DType dtype) {
  const double most = dtype == DType::i8 ? 127.0 : double{largest_float8};
  const std::string name = graph.value(constant).name;
  std::vector<int64_t> others;
  for (int64_t other = 0; other < static_cast<int64_t>(graph.shape(constant).size()); ++other)
    if (other != axis) others.push_back(other);
  const auto add = [&](Op op, std::vector<ValueId> inputs, const std::string& suffix) {
    return graph.add(std::move(op), std::move(inputs), name + suffix, sources);
  };
  const ValueId magnitudes = add(ops::Pointwise{F::abs}, {constant}, "_magnitudes");
  const ValueId largest = add(ops::Reduce{ops::ReduceKind::max, others, false}, {magnitudes}, "_largest");
  const ValueId fraction = add(ops::Pointwise{F::div}, {largest, add_scalar(graph, DType::f32, most)}, "_fraction");
  const ValueId bounded = least == no_value ? fraction : add(ops::Pointwise{F::max}, {fraction, least}, "_bounded");
  const ValueId scale = add(ops::Pointwise{F::max}, {bounded, add_scalar(graph, DType::f32, smallest_scale)}, "_scale");
  const ValueId steps = add(ops::Quantize{.dtype = dtype, .axis = axis}, {constant, scale}, "_QuantizeLinear");
  return {add(ops::Dequantize{.axis = axis}, {steps, scale}, "_DequantizeLinear"), scale};
}

}  // namespace camshaft

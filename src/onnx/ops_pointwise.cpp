// Elementwise arithmetic, comparison and logic.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/symbols.h"
#include "onnx/converters.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

namespace {

using F = ScalarFunction;

template <F function>
Values unary(ConvertContext& c) {
  return c.result(function, {c.input(0)});
}

// Until operator set 6, the second operand's axes start at the first's `axis` instead of ending with its last.
ValueId second_operand(ConvertContext& c) {
  const ValueId a = c.input(0), b = c.input(1);
  if (c.opset() > 6 || c.int_attribute("broadcast", 0) == 0 || !c.has_attribute("axis")) return b;
  Shape shape = c.shape(b);
  const int64_t axis = c.axis(c.int_attribute("axis"), c.rank(a));
  while (static_cast<int64_t>(shape.size()) + axis < c.rank(a)) shape.emplace_back(1);
  return c.reshape(b, std::move(shape));
}

template <F function>
Values binary(ConvertContext& c) {
  return c.result(function, {c.input(0), second_operand(c)});
}

bool differ(const Dim& a, const Dim& b) {
  const Dim difference = a - b;
  const auto low = difference.lower_bound(), high = difference.upper_bound();
  return (low && *low > 0) || (high && *high < 0);
}

bool is_size_of_a_tensor(const Graph& graph, const Dim& d) {
  const auto has = [&](const Value& value) {
    return std::find(value.type.shape.begin(), value.type.shape.end(), d) != value.type.shape.end();
  };
  return std::any_of(graph.values.begin(), graph.values.end(), has);
}

// PyTorch's expand compares sizes with -1, which stands for a size as it is. Windows over a length make expressions
// that may be -1, such as floor_div(samples + 240, 320) - 1; but as the size of a tensor they are not, for that is
// refused.
std::optional<std::vector<Dim>> equal_sizes(ConvertContext& c, ValueId left, ValueId right) {
  const auto a = c.content(left), b = c.content(right);
  if (!a || !b || a->empty() || b->empty()) return std::nullopt;
  const size_t count = std::max(a->size(), b->size());
  if ((a->size() != 1 && a->size() != count) || (b->size() != 1 && b->size() != count)) return std::nullopt;
  const auto never = [&](const Dim& size, const Dim& marker) {
    return marker.is_constant() && marker.value() < 0 && is_size_of_a_tensor(c.graph(), size);
  };
  std::vector<Dim> equal;
  for (size_t i = 0; i < count; ++i) {
    const Dim &x = (*a)[a->size() == 1 ? 0 : i], &y = (*b)[b->size() == 1 ? 0 : i];
    if (!(x == y) && !differ(x, y) && !never(x, y) && !never(y, x)) return std::nullopt;
    equal.emplace_back(x == y ? 1 : 0);
  }
  return equal;
}

Values equal(ConvertContext& c) {
  Values made = binary<F::equal>(c);
  Value& result = c.graph().value(made[0]);
  if (!result.content && result.type.shape.size() <= 1 && c.has(1))
    result.content = equal_sizes(c, c.input(0), c.input(1));
  return made;
}

// a > b is b < a.
template <F function>
Values swapped(ConvertContext& c) {
  return c.result(function, {second_operand(c), c.input(0)});
}

template <F function>
Values variadic(ConvertContext& c) {
  const Values& inputs = c.all_inputs();
  ValueId sum = inputs[0];
  for (size_t i = 1; i + 1 < inputs.size(); ++i) sum = c.add(function, {sum, inputs[i]});
  return inputs.size() == 1 ? Values{sum} : c.result(function, {sum, inputs.back()});
}

Values mean(ConvertContext& c) {
  const Values& inputs = c.all_inputs();
  ValueId sum = c.widened(inputs[0]);
  for (size_t i = 1; i < inputs.size(); ++i) sum = c.add(F::add, {sum, c.widened(inputs[i])});
  const Values quotient{sum, c.scalar(c.dtype(sum), static_cast<double>(inputs.size()))};
  if (c.dtype(sum) == c.dtype(inputs[0])) return c.result(F::div, quotient);
  return c.result(ops::Cast{c.dtype(inputs[0])}, {c.add(F::div, quotient)});
}

Values pow(ConvertContext& c) {
  const ValueId base = c.input(0), exponent = c.input(1);
  const DType to = c.dtype(base), of_exponent = c.dtype(exponent);
  if (is_integer(to) && is_floating(of_exponent)) {
    const ValueId power = c.add(F::pow, {c.cast(base, of_exponent), exponent});
    return c.result(ops::Cast{to}, {power});
  }
  return c.result(F::pow, {base, c.cast(exponent, to)});
}

Values mod(ConvertContext& c) {
  const bool fmod = c.int_attribute("fmod", 0) != 0;
  if (!fmod && is_floating(c.dtype(c.input(0)))) c.invalid("floats need the attribute fmod=1");
  return c.result(fmod ? F::fmod : F::mod, {c.input(0), c.input(1)});
}

Values bit_shift(ConvertContext& c) {
  const std::string direction = c.string_attribute("direction");
  if (direction != "LEFT" && direction != "RIGHT") c.invalid(fmt::format("direction '{}' is unknown", direction));
  return c.result(direction == "LEFT" ? F::shift_left : F::shift_right, {c.input(0), c.input(1)});
}

Values where(ConvertContext& c) {
  return c.result(F::select, {c.input(0), c.input(1), c.input(2)});
}

Values is_inf(ConvertContext& c) {
  const ValueId x = c.input(0);
  const bool positive = c.int_attribute("detect_positive", 1) != 0,
             negative = c.int_attribute("detect_negative", 1) != 0;
  if (positive && negative) return c.result(F::is_inf_pos, {c.add(F::abs, {x})});
  if (positive) return c.result(F::is_inf_pos, {x});
  if (negative) return c.result(F::is_inf_neg, {x});
  return c.result(ops::Expand{c.shape(x)}, {c.scalar(DType::boolean, 0)});
}

Values cast_to(ConvertContext& c, DType to) {
  const ValueId x = c.input(0);
  if (c.dtype(x) == to) return {x};
  if ((to == DType::i64 || to == DType::i32) && is_floating(c.dtype(x)) && !c.graph().is_constant(x)) {
    // Sizes that went through floating point, as exporters scale them. Those that only running tells stay data.
    const auto sizes = c.cut_to_sizes(x);
    if (sizes && !names_run_time_sizes(*sizes)) return c.result(ops::DimsTensor{*sizes, to, c.rank(x) == 0}, {});
  }
  const std::string mode = c.string_attribute("round_mode", "up");
  const auto known = std::find(std::begin(EnumNames<PowerRounding>::values), std::end(EnumNames<PowerRounding>::values),
                               std::string_view(mode));
  if (known == std::end(EnumNames<PowerRounding>::values)) c.invalid(fmt::format("round_mode '{}' is unknown", mode));
  const auto rounding = static_cast<PowerRounding>(known - std::begin(EnumNames<PowerRounding>::values));
  return c.result(ops::Cast{to, c.int_attribute("saturate", 1) != 0, rounding}, {c.input(0)});
}

Values cast(ConvertContext& c) {
  const int64_t to = c.int_attribute("to");
  return cast_to(c, dtype_from_onnx(static_cast<int32_t>(to), "attribute 'to'"));
}

Values cast_like(ConvertContext& c) {
  return cast_to(c, c.dtype(c.input(1)));
}

Values bit_cast(ConvertContext& c) {
  const DType to = dtype_from_onnx(static_cast<int32_t>(c.int_attribute("to")), "attribute 'to'");
  if (c.dtype(c.input(0)) == to) return {c.input(0)};
  return c.result(ops::BitCast{to}, {c.input(0)});
}

constexpr Converter pointwise_table[] = {
    {"Abs", unary<F::abs>},
    {"Acos", unary<F::acos>},
    {"Acosh", unary<F::acosh>},
    {"Add", binary<F::add>},
    {"And", binary<F::logical_and>},
    {"Asin", unary<F::asin>},
    {"Asinh", unary<F::asinh>},
    {"Atan", unary<F::atan>},
    {"Atanh", unary<F::atanh>},
    {"BitCast", bit_cast},
    {"BitShift", bit_shift},
    {"BitwiseAnd", binary<F::bitwise_and>},
    {"BitwiseNot", unary<F::bitwise_not>},
    {"BitwiseOr", binary<F::bitwise_or>},
    {"BitwiseXor", binary<F::bitwise_xor>},
    {"Cast", cast},
    {"CastLike", cast_like},
    {"Ceil", unary<F::ceil>},
    {"Cos", unary<F::cos>},
    {"Cosh", unary<F::cosh>},
    {"Div", binary<F::div>},
    {"Equal", equal},
    {"Erf", unary<F::erf>},
    {"Exp", unary<F::exp>},
    {"Floor", unary<F::floor>},
    {"Greater", swapped<F::less>},
    {"GreaterOrEqual", swapped<F::less_or_equal>},
    {"IsInf", is_inf},
    {"IsNaN", unary<F::is_nan>},
    {"Less", binary<F::less>},
    {"LessOrEqual", binary<F::less_or_equal>},
    {"Log", unary<F::log>},
    {"Max", variadic<F::max>},
    {"Mean", mean},
    {"Min", variadic<F::min>},
    {"Mod", mod},
    {"Mul", binary<F::mul>},
    {"Neg", unary<F::neg>},
    {"Not", unary<F::logical_not>},
    {"Or", binary<F::logical_or>},
    {"Pow", pow},
    {"Reciprocal", unary<F::reciprocal>},
    {"Round", unary<F::round>},
    {"Sign", unary<F::sign>},
    {"Sin", unary<F::sin>},
    {"Sinh", unary<F::sinh>},
    {"Sqrt", unary<F::sqrt>},
    {"Sub", binary<F::sub>},
    {"Sum", variadic<F::add>},
    {"Tan", unary<F::tan>},
    {"Where", where},
    {"Xor", binary<F::logical_xor>},
};

}  // namespace

std::span<const Converter> pointwise_converters() {
  return pointwise_table;
}

}  // namespace camshaft::onnx

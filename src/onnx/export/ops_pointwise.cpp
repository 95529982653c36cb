// Arithmetic, comparison, logic and conversions.
#include "ir/ops/pointwise.h"
#include "onnx/export/export_operator.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

namespace {

using F = ScalarFunction;

/// ONNX's operator of the same operands; null for those that are written in another way.
const char* operator_of(F function) {
  switch (function) {
    case F::neg:
      return "Neg";
    case F::abs:
      return "Abs";
    case F::sign:
      return "Sign";
    case F::ceil:
      return "Ceil";
    case F::floor:
      return "Floor";
    case F::round:
      return "Round";
    case F::sqrt:
      return "Sqrt";
    case F::reciprocal:
      return "Reciprocal";
    case F::exp:
      return "Exp";
    case F::log:
      return "Log";
    case F::sin:
      return "Sin";
    case F::cos:
      return "Cos";
    case F::tan:
      return "Tan";
    case F::asin:
      return "Asin";
    case F::acos:
      return "Acos";
    case F::atan:
      return "Atan";
    case F::sinh:
      return "Sinh";
    case F::cosh:
      return "Cosh";
    case F::tanh:
      return "Tanh";
    case F::asinh:
      return "Asinh";
    case F::acosh:
      return "Acosh";
    case F::atanh:
      return "Atanh";
    case F::erf:
      return "Erf";
    case F::sigmoid:
      return "Sigmoid";
    case F::is_nan:
      return "IsNaN";
    case F::logical_not:
      return "Not";
    case F::bitwise_not:
      return "BitwiseNot";
    case F::add:
      return "Add";
    case F::sub:
      return "Sub";
    case F::mul:
      return "Mul";
    case F::div:
      return "Div";
    case F::pow:
      return "Pow";
    case F::min:
      return "Min";
    case F::max:
      return "Max";
    case F::equal:
      return "Equal";
    case F::less:
      return "Less";
    case F::less_or_equal:
      return "LessOrEqual";
    case F::logical_and:
      return "And";
    case F::logical_or:
      return "Or";
    case F::logical_xor:
      return "Xor";
    case F::bitwise_and:
      return "BitwiseAnd";
    case F::bitwise_or:
      return "BitwiseOr";
    case F::bitwise_xor:
      return "BitwiseXor";
    case F::select:
      return "Where";
    case F::log1p:
    case F::is_inf_pos:
    case F::is_inf_neg:
    case F::mod:
    case F::fmod:
    case F::shift_left:
    case F::shift_right:
      return nullptr;
  }
  return nullptr;
}

// ONNX has no log1p. With u = 1 + x rounded, log(u) · x / (u - 1) is exact to some roundings (Kahan; Higham, "Accuracy
// and Stability of Numerical Algorithms", 1.14.1); where u - 1 is x, also an infinite one, log(u) is.
void log1p(ExportContext& c) {
  const std::string x = c.input(0), one = c.number(c.dtype(0), 1);
  const std::string u = c.add("Add", {x, one}), d = c.add("Sub", {u, one}), log = c.add("Log", {u});
  const std::string close = c.add("Mul", {log, c.add("Div", {x, d})});
  const std::string exact = c.add("Where", {c.add("Equal", {d, x}), log, close});
  c.result("Where", {c.add("Equal", {d, c.number(c.dtype(0), 0)}), x, exact});
}

// The remainder with the divisor's sign, which ONNX's Mod has of integers alone.
void floored_modulo(ExportContext& c) {
  const std::string x = c.input(0), y = c.input(1), zero = c.number(c.dtype(0), 0);
  const std::string rest = c.add("Mod", {x, y}, Attributes().integer("fmod", 1));
  const std::string negative = c.add("Less", {rest, zero}), falls = c.add("Less", {y, zero});
  const std::string other_sign =
      c.add("And", {c.add("Not", {c.add("Equal", {rest, zero})}), c.add("Xor", {negative, falls})});
  c.result("Where", {other_sign, c.add("Add", {rest, y}), rest});
}

}  // namespace

void export_as(ExportContext& c, const ops::Pointwise& op) {
  switch (op.function) {
    case F::log1p:
      return log1p(c);
    case F::is_inf_pos:
      return c.result("IsInf", {c.input(0)}, Attributes().integer("detect_negative", 0));
    case F::is_inf_neg:
      return c.result("IsInf", {c.input(0)}, Attributes().integer("detect_positive", 0));
    case F::mod:
      return is_floating(c.dtype(0)) ? floored_modulo(c) : c.result("Mod", c.inputs());
    case F::fmod:
      return c.result("Mod", c.inputs(), Attributes().integer("fmod", 1));
    case F::shift_left:
      return c.result("BitShift", c.inputs(), Attributes().text("direction", "LEFT"));
    case F::shift_right:
      return c.result("BitShift", c.inputs(), Attributes().text("direction", "RIGHT"));
    default:
      return c.result(operator_of(op.function), c.inputs());
  }
}

void export_as(ExportContext& c, const ops::Cast& op) {
  Attributes attributes = Attributes().integer("to", dtype_to_onnx(op.to));
  if (!op.saturate) attributes.integer("saturate", 0);
  const bool to_exponents = op.to == DType::f8e8m0;
  if (to_exponents) attributes.text("round_mode", EnumNames<PowerRounding>::values[static_cast<size_t>(op.rounding)]);
  c.result("Cast", {c.input(0)}, std::move(attributes));
}

void export_as(ExportContext& c, const ops::BitCast& op) {
  c.result({"BitCast", 26}, {c.input(0)}, Attributes().integer("to", dtype_to_onnx(op.to)));
}

}  // namespace camshaft::onnx

// Operators that are given as an expression over the elements at one place: "my::Gelu(x) = 0.5 * x * (1 + erf(x))".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// A part of an expression: a number, a parameter, or a function of parts.
struct ExpressionPart {
  enum class Kind : uint8_t { number, parameter, function };
  Kind kind = Kind::number;
  double number = 0;
  size_t parameter = 0;  ///< index into ScalarExpression::parameters
  ScalarFunction function = ScalarFunction::add;
  std::vector<ExpressionPart> arguments;
};

struct ScalarExpression {
  struct Parameter {
    std::string name;
    std::optional<double> otherwise;  ///< an attribute, with its default; an operand without
  };
  std::string domain, name;  ///< of the operator; "" for the default domain
  std::string text;          ///< as given
  std::vector<Parameter> parameters;
  ExpressionPart value;
};

/// Reads "domain::Name(x, y, alpha = 1) = expression". Operands have no default; attributes, which are numbers, do.
/// Expressions have numbers, parameters, + - * / ^, comparisons (< <= > >= ==), brackets and the scalar functions of
/// ir/ops/scalar_function.h by their names. Throws Error(invalid_argument) that names the place.
ScalarExpression parse_scalar_expression(std::string_view text);

/// Appends the nodes of an operator's expression; narrow floats are computed in f32.
Values convert_expression(ConvertContext& c, const ScalarExpression& op);

}  // namespace camshaft::onnx

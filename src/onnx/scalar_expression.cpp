#include "onnx/scalar_expression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/similar_names.h"
#include "ir/ops/pointwise.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace {

using F = ScalarFunction;
using Operation = ExpressionPart;

// Deeper ones are of no use, and would exhaust the stack.
constexpr int most_depth = 200;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  ScalarExpression run() {
    op_.text = std::string(text_);
    op_.name = std::string(word("the operator's name"));
    while (take("::") || take(".")) {
      op_.domain += (op_.domain.empty() ? "" : ".") + op_.name;
      op_.name = std::string(word("the operator's name"));
    }
    expect("(");
    do {
      ScalarExpression::Parameter parameter{std::string(word("a parameter")), std::nullopt};
      for (const auto& other : op_.parameters)
        if (other.name == parameter.name) fail(fmt::format("the parameter {} stands twice", quote(parameter.name)));
      if (take("=")) parameter.otherwise = signed_number();
      if (!parameter.otherwise && !op_.parameters.empty() && op_.parameters.back().otherwise)
        fail("operands come before attributes, which have defaults");
      op_.parameters.push_back(std::move(parameter));
    } while (take(","));
    expect(")");
    expect("=");
    op_.value = comparison();
    skip();
    if (at_ < text_.size()) fail(fmt::format("{} is not expected", quote(text_.substr(at_, 1))));
    if (op_.parameters.front().otherwise) fail("an operator needs an operand");
    return std::move(op_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is no operator: {} at character {}; one is written as 'my::Scaled(x, alpha = 1) = "
                            "alpha * tanh(x)'",
                            quote(text_), what, at_ + 1));
  }

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(fmt::format("'{}' is expected", token));
  }
  bool is_word_start() {
    skip();
    return at_ < text_.size() && (std::isalpha(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_');
  }
  std::string_view word(const char* what) {
    if (!is_word_start()) fail(fmt::format("{} is expected", what));
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  double number() {
    skip();
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number, a parameter or a function is expected");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  double signed_number() { return take("-") ? -number() : number(); }

  static Operation call(F function, std::vector<Operation> arguments) {
    return {Operation::Kind::function, 0, 0, function, std::move(arguments)};
  }

  Operation comparison() {
    Operation left = sum();
    if (take("<=")) return call(F::less_or_equal, {std::move(left), sum()});
    if (take(">=")) return call(F::less_or_equal, {sum(), std::move(left)});
    if (take("==")) return call(F::equal, {std::move(left), sum()});
    if (take("<")) return call(F::less, {std::move(left), sum()});
    if (take(">")) return call(F::less, {sum(), std::move(left)});
    return left;
  }
  Operation sum() {
    Operation left = product();
    while (true) {
      if (take("+")) {
        left = call(F::add, {std::move(left), product()});
      } else if (take("-")) {
        left = call(F::sub, {std::move(left), product()});
      } else {
        return left;
      }
    }
  }
  Operation product() {
    Operation left = signed_power();
    while (true) {
      if (take("*")) {
        left = call(F::mul, {std::move(left), signed_power()});
      } else if (take("/")) {
        left = call(F::div, {std::move(left), signed_power()});
      } else {
        return left;
      }
    }
  }
  // -x^2 is -(x^2), and 2^-1 a half.
  Operation signed_power() {
    if (++depth_ > most_depth) fail(fmt::format("brackets are deeper than {}", most_depth));
    Operation result;
    if (take("-")) {
      result = call(F::neg, {signed_power()});
    } else {
      result = primary();
      if (take("^")) result = call(F::pow, {std::move(result), signed_power()});
    }
    --depth_;
    return result;
  }
  Operation primary() {
    if (take("(")) {
      Operation inner = comparison();
      expect(")");
      return inner;
    }
    if (!is_word_start()) return {Operation::Kind::number, number(), 0, F::add, {}};
    const std::string name(word("a name"));
    if (!take("(")) {
      for (size_t p = 0; p < op_.parameters.size(); ++p)
        if (op_.parameters[p].name == name) return {Operation::Kind::parameter, 0, p, F::add, {}};
      std::vector<std::string> known;
      for (const auto& parameter : op_.parameters) known.push_back(parameter.name);
      // Of single letters all are similar.
      fail(fmt::format(
          "{} is no parameter{}", quote(name),
          name.size() > 1 ? what_was_meant(name, known) : fmt::format("; there are: {}", fmt::join(known, ", "))));
    }
    std::vector<Operation> arguments;
    do arguments.push_back(comparison());
    while (take(","));
    expect(")");
    F function{};
    try {
      function = parse_scalar_function(name);
    } catch (const Error&) {
      fail(fmt::format("{} is no scalar function{}", quote(name), what_was_meant(name, scalar_function_names())));
    }
    if (static_cast<size_t>(arity(function)) != arguments.size())
      fail(fmt::format("{} takes {} arguments, not {}", name, arity(function), arguments.size()));
    return call(function, std::move(arguments));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  ScalarExpression op_;
};

class Conversion {
 public:
  Conversion(ConvertContext& c, const ScalarExpression& op) : c_(c), op_(op) {
    size_t operands = 0;
    for (const ScalarExpression::Parameter& parameter : op.parameters) {
      if (parameter.otherwise) {
        values_.push_back(scalar(attribute(parameter)));
        continue;
      }
      const ValueId given = c.input(operands++);
      if (operands == 1) {
        given_ = c.dtype(given);
        dtype_ = c.dtype(c.widened(given));
      } else if (c.dtype(given) != given_) {
        c.invalid(fmt::format("its operands are {} and {}; an expression takes one type", camshaft::to_string(given_),
                              camshaft::to_string(c.dtype(given))));
      }
      values_.push_back(c.widened(given));
    }
    if (c.input_count() > operands)
      c.invalid(fmt::format("it has {} operands, its expression takes {}", c.input_count(), operands));
    for (const AttributeProto& attribute : c.node().attributes)
      if (std::none_of(op.parameters.begin(), op.parameters.end(),
                       [&](const auto& p) { return p.otherwise && p.name == attribute.name; }))
        c.invalid(fmt::format("its expression has no attribute {}", quote(attribute.name)));
  }

  Values run() {
    const ValueId value = build(op_.value);
    // Only a comparison gives no number; its result stays bool.
    const DType dtype = c_.dtype(value);
    if (dtype != given_ && dtype == dtype_) return c_.result(ops::Cast{given_}, {value});
    return {value};
  }

 private:
  double attribute(const ScalarExpression::Parameter& parameter) {
    const AttributeProto* given = c_.node().find_attribute(parameter.name);
    if (!given) return *parameter.otherwise;
    if (given->type == AttributeType::int_) return static_cast<double>(given->i);
    return c_.float_attribute(parameter.name);
  }

  // Integers would be what is left of 0.5.
  ValueId scalar(double number) {
    if (is_integer(dtype_)) {
      const double bits = bit_width(dtype_), least = is_signed(dtype_) ? -std::exp2(bits - 1) : 0,
                   beyond = std::exp2(is_signed(dtype_) ? bits - 1 : bits);
      if (number != std::trunc(number) || number < least || number >= beyond)
        c_.invalid(fmt::format("its operands are {}, which has no {}: cast them to f32 before, and the result back",
                               camshaft::to_string(dtype_), number));
    }
    return c_.scalar(dtype_, number);
  }

  ValueId build(const Operation& part) {
    if (part.kind == Operation::Kind::parameter) return values_[part.parameter];
    if (part.kind == Operation::Kind::number) return scalar(part.number);
    Values arguments;
    for (const Operation& argument : part.arguments) arguments.push_back(build(argument));
    return c_.add(part.function, std::move(arguments));
  }

  ConvertContext& c_;
  const ScalarExpression& op_;
  DType given_ = DType::f32, dtype_ = DType::f32;  // of the operands, and computed in
  Values values_;                                  // by parameter
};

}  // namespace

ScalarExpression parse_scalar_expression(std::string_view text) {
  return Parser(text).run();
}

Values convert_expression(ConvertContext& c, const ScalarExpression& op) {
  return Conversion(c, op).run();
}

}  // namespace camshaft::onnx

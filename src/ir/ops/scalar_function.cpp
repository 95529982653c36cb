#include "ir/ops/scalar_function.h"

#include <array>
#include <string>

#include "camshaft/error.h"

namespace camshaft {
namespace {

struct Entry {
  std::string_view name;
  int arity;
  bool predicate;  // result is bool whatever the operands are
};

// In the order of the enumeration.
constexpr std::array<Entry, scalar_function_count> entries = {{
    {"neg", 1, false},        {"abs", 1, false},          {"sign", 1, false},       {"ceil", 1, false},
    {"floor", 1, false},      {"round", 1, false},        {"sqrt", 1, false},       {"reciprocal", 1, false},
    {"exp", 1, false},        {"log", 1, false},          {"log1p", 1, false},      {"sin", 1, false},
    {"cos", 1, false},        {"tan", 1, false},          {"asin", 1, false},       {"acos", 1, false},
    {"atan", 1, false},       {"sinh", 1, false},         {"cosh", 1, false},       {"tanh", 1, false},
    {"asinh", 1, false},      {"acosh", 1, false},        {"atanh", 1, false},      {"erf", 1, false},
    {"sigmoid", 1, false},    {"is_nan", 1, true},        {"is_inf_pos", 1, true},  {"is_inf_neg", 1, true},
    {"logical_not", 1, true}, {"bitwise_not", 1, false},  {"add", 2, false},        {"sub", 2, false},
    {"mul", 2, false},        {"div", 2, false},          {"mod", 2, false},        {"fmod", 2, false},
    {"pow", 2, false},        {"min", 2, false},          {"max", 2, false},        {"equal", 2, true},
    {"less", 2, true},        {"less_or_equal", 2, true}, {"logical_and", 2, true}, {"logical_or", 2, true},
    {"logical_xor", 2, true}, {"bitwise_and", 2, false},  {"bitwise_or", 2, false}, {"bitwise_xor", 2, false},
    {"shift_left", 2, false}, {"shift_right", 2, false},  {"select", 3, false},
}};

const Entry& entry(ScalarFunction function) {
  const auto index = static_cast<size_t>(function);
  if (index >= entries.size()) {
    throw Error(ErrorCode::internal, "scalar function number " + std::to_string(index) + " does not exist");
  }
  return entries[index];
}

}  // namespace

std::string_view to_string(ScalarFunction function) {
  return entry(function).name;
}

ScalarFunction parse_scalar_function(std::string_view name) {
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].name == name) return static_cast<ScalarFunction>(i);
  }
  std::string known;
  for (const Entry& e : entries) known += (known.empty() ? "" : ", ") + std::string(e.name);
  throw Error(ErrorCode::invalid_argument,
              "'" + std::string(name) + "' is not a scalar function; the known ones are: " + known);
}

int arity(ScalarFunction function) {
  return entry(function).arity;
}

DType result_dtype(ScalarFunction function, DType operand) {
  return entry(function).predicate ? DType::boolean : operand;
}

}  // namespace camshaft

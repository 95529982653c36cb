#include "ir/ops/scalar_function.h"

#include <array>
#include <string>

#include "base/error.h"

namespace camshaft {
namespace {

// Which numbers have the function.
enum class Numbers : uint8_t { both, reals, integers };

struct Entry {
  std::string_view name;
  int arity;
  bool predicate;  // result is bool whatever the operands are
  Numbers numbers;
};

// In the order of the enumeration.
constexpr std::array<Entry, scalar_function_count> entries = {{
    {"neg", 1, false, Numbers::both},
    {"abs", 1, false, Numbers::both},
    {"sign", 1, false, Numbers::both},
    {"ceil", 1, false, Numbers::reals},
    {"floor", 1, false, Numbers::reals},
    {"round", 1, false, Numbers::reals},
    {"sqrt", 1, false, Numbers::reals},
    {"reciprocal", 1, false, Numbers::reals},
    {"exp", 1, false, Numbers::reals},
    {"log", 1, false, Numbers::reals},
    {"log1p", 1, false, Numbers::reals},
    {"sin", 1, false, Numbers::reals},
    {"cos", 1, false, Numbers::reals},
    {"tan", 1, false, Numbers::reals},
    {"asin", 1, false, Numbers::reals},
    {"acos", 1, false, Numbers::reals},
    {"atan", 1, false, Numbers::reals},
    {"sinh", 1, false, Numbers::reals},
    {"cosh", 1, false, Numbers::reals},
    {"tanh", 1, false, Numbers::reals},
    {"asinh", 1, false, Numbers::reals},
    {"acosh", 1, false, Numbers::reals},
    {"atanh", 1, false, Numbers::reals},
    {"erf", 1, false, Numbers::reals},
    {"sigmoid", 1, false, Numbers::reals},
    {"is_nan", 1, true, Numbers::reals},
    {"is_inf_pos", 1, true, Numbers::reals},
    {"is_inf_neg", 1, true, Numbers::reals},
    {"logical_not", 1, true, Numbers::both},
    {"bitwise_not", 1, false, Numbers::integers},
    {"add", 2, false, Numbers::both},
    {"sub", 2, false, Numbers::both},
    {"mul", 2, false, Numbers::both},
    {"div", 2, false, Numbers::both},
    {"mod", 2, false, Numbers::both},
    {"fmod", 2, false, Numbers::both},
    {"pow", 2, false, Numbers::both},
    {"min", 2, false, Numbers::both},
    {"max", 2, false, Numbers::both},
    {"equal", 2, true, Numbers::both},
    {"less", 2, true, Numbers::both},
    {"less_or_equal", 2, true, Numbers::both},
    {"logical_and", 2, true, Numbers::both},
    {"logical_or", 2, true, Numbers::both},
    {"logical_xor", 2, true, Numbers::both},
    {"bitwise_and", 2, false, Numbers::integers},
    {"bitwise_or", 2, false, Numbers::integers},
    {"bitwise_xor", 2, false, Numbers::integers},
    {"shift_left", 2, false, Numbers::integers},
    {"shift_right", 2, false, Numbers::integers},
    {"select", 3, false, Numbers::both},
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

std::vector<std::string> scalar_function_names() {
  std::vector<std::string> names;
  for (const Entry& e : entries) names.emplace_back(e.name);
  return names;
}

int arity(ScalarFunction function) {
  return entry(function).arity;
}

bool takes_reals(ScalarFunction function) {
  return entry(function).numbers != Numbers::integers;
}

bool takes_integers(ScalarFunction function) {
  return entry(function).numbers != Numbers::reals;
}

DType result_dtype(ScalarFunction function, DType operand) {
  return entry(function).predicate ? DType::boolean : operand;
}

}  // namespace camshaft

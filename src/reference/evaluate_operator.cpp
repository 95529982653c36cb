// From an operator to the evaluation of its struct: a table by type of all operators. One that has no evaluation does
// not link.
#include <fmt/format.h>

#include <unordered_map>

#include "base/error.h"
#include "ir/ops/all_operators.h"
#include "reference/evaluate.h"

namespace camshaft {

namespace {

using Evaluate = std::vector<Tensor> (*)(const Op&, const EvalContext&);

template <Operator T>
std::vector<Tensor> evaluate_as(const Op& op, const EvalContext& context) {
  return op.as<T>()->evaluate(context);
}

template <Operator... Ops>
std::unordered_map<std::type_index, Evaluate> table_of(ops::OperatorList<Ops...>) {
  return {{typeid(Ops), evaluate_as<Ops>}...};
}

}  // namespace

std::vector<Tensor> evaluate(const Op& op, const EvalContext& context) {
  static const std::unordered_map<std::type_index, Evaluate> table = table_of(ops::AllOperators());
  const auto found = table.find(op.type());
  if (found == table.end())
    throw Error(
        ErrorCode::internal,
        fmt::format("the operator '{}' has no reference evaluation: it is not in ops::AllOperators", op.name()));
  return found->second(op, context);
}

}  // namespace camshaft

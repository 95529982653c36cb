// From an operator to the evaluation of its struct: a table by type of all operators. One that has no evaluation does
// not link.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/work_scope.h"
#include "base/written_texts.h"
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

// What texts hold is known once they are made. They count as what they take: copying memory that is new is slower than
// a copy is otherwise.
void count_texts(const EvalContext& context, std::vector<Tensor>& results) {
  constexpr double of_a_byte = 25;
  const auto budget = current_budget();
  if (!budget) return;
  for (Tensor& result : results) {
    const bool is_new = std::none_of(context.inputs.begin(), context.inputs.end(),
                                     [&](const Tensor& input) { return input.data() == result.data(); });
    if (result.dtype() == DType::string && is_new)
      budget->take_operations(of_a_byte * static_cast<double>(result.claim_texts()));
  }
}

}  // namespace

std::vector<Tensor> evaluate(const Op& op, const EvalContext& context) {
  static const std::unordered_map<std::type_index, Evaluate> table = table_of(ops::AllOperators());
  const auto found = table.find(op.type());
  if (found == table.end())
    throw Error(
        ErrorCode::internal,
        fmt::format("the operator '{}' has no reference evaluation: it is not in ops::AllOperators", op.name()));
  std::vector<Tensor> results;
  {
    const WrittenTexts texts;
    results = found->second(op, context);
  }
  count_texts(context, results);
  return results;
}

}  // namespace camshaft

#include "runtime/stacked_adapters.h"

#include <vector>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/widened.h"

namespace camshaft {

namespace {

template <class T>
const T* operator_of(const Provenance& provenance) {
  const auto* transform = provenance.as<Provenance::Transform>();
  return transform && provenance.operands()[0] ? transform->op.as<T>() : nullptr;
}

// Of the matrices behind the zeros, in their order; empty where the expression is another one.
std::vector<const Provenance::Initializer*> initializers_of_stack(const Provenance& provenance) {
  const Provenance* at = &provenance;
  while (operator_of<ops::Cast>(*at)) at = at->operands()[0].get();
  const auto* pad = operator_of<ops::Pad>(*at);
  if (!pad || *pad != ops::Pad{ops::PadMode::constant, {1, 0, 0, 0, 0, 0}}) return {};
  at = at->operands()[0].get();
  const auto* transpose = operator_of<ops::Transpose>(*at);
  if (!transpose || transpose->permutation != std::vector<int64_t>{0, 2, 1}) return {};
  at = at->operands()[0].get();
  const auto* concat = operator_of<ops::Concat>(*at);
  std::vector<const Provenance*> rows;
  if (concat && concat->axis == 0) {
    for (const Provenance::Pointer& row : at->operands()) rows.push_back(row.get());
  } else {
    rows.push_back(at);
  }
  std::vector<const Provenance::Initializer*> initializers;
  for (const Provenance* row : rows) {
    if (!row || !operator_of<ops::Reshape>(*row)) return {};
    const auto* initializer = row->operands()[0]->as<Provenance::Initializer>();
    if (!initializer || initializer->dims.size() != 2) return {};
    initializers.push_back(initializer);
  }
  return initializers;
}

}  // namespace

std::map<std::string, Tensor> matrices_of_stack(const Tensor& stack, const Provenance& provenance) {
  std::map<std::string, Tensor> matrices;
  if (stack.rank() != 3 || !is_floating(stack.dtype()) || stack.is_elided()) return matrices;
  const auto initializers = initializers_of_stack(provenance);
  if (initializers.size() + 1 != static_cast<size_t>(stack.dims()[0])) return matrices;
  const Tensor numbers = widened(stack);
  const int64_t columns = stack.dims()[1], rows = stack.dims()[2];
  for (size_t i = 0; i < initializers.size(); ++i) {
    if (initializers[i]->dims != Dims{rows, columns}) return {};
    Tensor matrix(DType::f32, {rows, columns});
    const float* from = numbers.as<float>() + static_cast<int64_t>(i + 1) * rows * columns;
    float* to = matrix.as_mutable<float>();
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) to[row * columns + column] = from[column * rows + row];
    matrices.emplace(initializers[i]->name, std::move(matrix));
  }
  return matrices;
}

}  // namespace camshaft

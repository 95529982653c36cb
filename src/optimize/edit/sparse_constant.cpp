#include "optimize/edit/sparse_constant.h"

#include <cstring>

#include "ir/ops/index.h"
#include "ir/ops/move.h"

namespace camshaft {

namespace {

constexpr int64_t least_equal = 128;  // elements for each one that differs

// The bits of an element, behind zeros.
uint64_t word_at(const Tensor& tensor, int64_t width, int64_t i) {
  uint64_t word = 0;
  std::memcpy(&word, tensor.data() + i * width, static_cast<size_t>(width));
  return word;
}

}  // namespace

std::optional<SparseConstant> sparse_constant(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  if (holds_objects(dtype) || bit_width(dtype) < 8 || bit_width(dtype) > 64 || tensor.size() == 0) return std::nullopt;
  const int64_t width = bit_width(dtype) / 8, count = tensor.size();
  // Of two that differ neither can be the only one that more than half of all are (Boyer and Moore).
  uint64_t usual = 0;
  int64_t lead = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t word = word_at(tensor, width, i);
    if (lead == 0) usual = word;
    lead += word == usual ? 1 : -1;
  }
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) {
    if (word_at(tensor, width, i) == usual) continue;
    places.push_back(i);
    if (std::ssize(places) * least_equal > count) return std::nullopt;
  }
  SparseConstant found{Tensor(dtype, {1}), Tensor(), Tensor()};
  std::memcpy(found.element.mutable_data(), &usual, static_cast<size_t>(width));
  if (places.empty()) return found;
  found.updates = Tensor(dtype, {std::ssize(places)});
  for (size_t i = 0; i < places.size(); ++i)
    std::memcpy(found.updates.mutable_data() + static_cast<int64_t>(i) * width, tensor.data() + places[i] * width,
                static_cast<size_t>(width));
  found.indices = Tensor::from_ints(places);
  return found;
}

ValueId add_sparse_constant(Graph& graph, const SparseConstant& constant, const Shape& shape, const std::string& name,
                            const std::vector<std::string>& sources) {
  int64_t count = 1;
  for (const Dim& d : shape) count *= d.value();
  const ValueId element = graph.add_constant(name + ".element", constant.element);
  ValueId made = graph.add(ops::Expand{{count}}, {element}, name + ".fill", sources);
  if (constant.indices.defined()) {
    const ValueId indices = graph.add_constant(name + ".indices", constant.indices);
    const ValueId updates = graph.add_constant(name + ".updates", constant.updates);
    made = graph.add(ops::ScatterElements{}, {made, indices, updates}, name + ".scatter", sources);
  }
  return shape.size() == 1 ? made : graph.add(ops::Reshape{shape}, {made}, name, sources);
}

bool is_sparse_constant(const Graph& graph, const Uses& uses, ValueId id) {
  const auto made_by = [&](ValueId value) -> const Node* {
    const int32_t n = uses.producer[static_cast<size_t>(value)];
    return n < 0 ? nullptr : &graph.nodes[static_cast<size_t>(n)];
  };
  const Node* node = made_by(id);
  if (node && node->op.as<ops::Reshape>()) node = made_by(node->inputs[0]);
  if (node && node->op.as<ops::ScatterElements>()) node = made_by(node->inputs[0]);
  return node && node->op.as<ops::Expand>();
}

}  // namespace camshaft

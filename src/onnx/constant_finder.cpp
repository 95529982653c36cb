#include "onnx/constant_finder.h"

#include <algorithm>
#include <numeric>

#include "ir/ops/collective.h"
#include "ir/ops/cost.h"
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/replaceable.h"
#include "reference/evaluate.h"

namespace camshaft::onnx {

namespace {

constexpr int64_t most_elements_found = int64_t{1} << 20;
constexpr double max_flops = 1e9;    // of one node: a long kernel over a long signal makes few elements out of many
constexpr int most_producers = 200;  // of producers: finding recurses

bool is_static(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_constant(); });
}

bool is_short(const Shape& shape) {
  constexpr int64_t most_elements = 4096;
  Dims dims;
  for (const Dim& d : shape) dims.push_back(d.value());
  return element_count(dims) <= most_elements;
}

// A tensor out of elements that are all numbers; null when one is not, or the dtype does not hold integers.
std::shared_ptr<const Tensor> from_content(const Value& value) {
  if (!value.content || !is_static(value.type.shape)) return nullptr;
  Dims dims;
  for (const Dim& d : value.type.shape) dims.push_back(d.value());
  if (!is_static(*value.content) || element_count(dims) != static_cast<int64_t>(value.content->size())) return nullptr;
  Tensor out(value.type.dtype, dims);
  for (size_t i = 0; i < value.content->size(); ++i) {
    const int64_t element = (*value.content)[i].value();
    switch (value.type.dtype) {
      case DType::i64:
        out.as_mutable<int64_t>()[i] = element;
        break;
      case DType::i32:
        out.as_mutable<int32_t>()[i] = static_cast<int32_t>(element);
        break;
      case DType::boolean:
        out.as_mutable<uint8_t>()[i] = element != 0;
        break;
      default:
        return nullptr;
    }
  }
  return std::make_shared<const Tensor>(std::move(out));
}

}  // namespace

void ConstantFinder::note_new_nodes() {
  for (; nodes_seen_ < graph_.nodes.size(); ++nodes_seen_)
    for (const ValueId output : graph_.nodes[nodes_seen_].outputs) producer_[output] = nodes_seen_;
}

const Node* ConstantFinder::producer(ValueId id) {
  note_new_nodes();
  const auto it = producer_.find(id);
  return it == producer_.end() ? nullptr : &graph_.nodes[it->second];
}

// Converters read the numbers. What only derives constants of them, whatever they are, asks with a ReplaceableScope of
// nothing.
Constant ConstantFinder::find(ValueId id) {
  note_new_nodes();
  Constant found = find(id, 0);
  fix_numbers(found.provenance, "an operand by which an operator is read");
  return found;
}

std::optional<std::vector<Dim>> ConstantFinder::elements(ValueId id) {
  note_new_nodes();
  return elements(id, 0);
}

Constant ConstantFinder::find(ValueId id, int depth) {
  const Value& value = graph_.value(id);
  if (value.constant) return graph_.constant(id);
  if (const auto it = found_.find(id); it != found_.end()) return it->second;
  Constant result{from_content(value)};
  if (result.tensor) result.provenance = origin_of_content(id, depth);
  const auto producer = producer_.find(id);
  if (!result.tensor && producer != producer_.end() && depth < most_producers)
    result = evaluate(graph_.nodes[producer->second], id, depth);
  found_[id] = result;
  return result;
}

// Elements that a shape rule has found follow from sizes, but what is done to these may be told by constants.
Provenance::Pointer ConstantFinder::origin_of_content(ValueId id, int depth) {
  const Value& value = graph_.value(id);
  const auto producer = producer_.find(id);
  if (value.constant || !value.content || producer == producer_.end() || depth >= most_producers)
    return value.provenance;
  if (const auto it = origins_.find(id); it != origins_.end()) return it->second;
  std::vector<Constant> from;
  for (const ValueId input : graph_.nodes[producer->second].inputs)
    if (input != no_value) from.push_back({nullptr, origin_of_content(input, depth + 1)});
  const bool any = std::any_of(from.begin(), from.end(), [](const Constant& c) { return c.provenance != nullptr; });
  return origins_[id] = any ? Provenance::unknown("a list of sizes that constants have a part in", from) : nullptr;
}

Constant ConstantFinder::evaluate(const Node& node, ValueId id, int depth) {
  // Loops may not end, and dims that are not numbers are not known yet.
  if (!node.bodies.empty() || node.op.as<ops::DimsTensor>()) return {};
  if (node.op.as<ops::Collective>()) return {};  // other ranks have constants of their own
  std::vector<Tensor> inputs;
  std::vector<Constant> operands;
  std::vector<TensorType> types;
  for (const ValueId output : node.outputs) {
    const TensorType& type = graph_.type(output);
    if (!is_static(type.shape) || is_container(type.dtype)) return {};
    Dims dims;
    for (const Dim& d : type.shape) dims.push_back(d.value());
    if (element_count(dims) > most_elements_found) return {};
    types.push_back(type);
  }
  if (const auto cost = ops::cost(graph_, node, {}); cost && cost->flops > max_flops) return {};
  for (const ValueId input : node.inputs) {
    operands.push_back(input == no_value ? Constant{} : find(input, depth + 1));
    if (input != no_value && !operands.back().tensor) return {};
    inputs.push_back(operands.back().tensor ? *operands.back().tensor : Tensor());
  }
  const std::vector<Tensor> outputs = camshaft::evaluate(node.op, {inputs, types, {}, node.bodies, pool_});
  const auto at = static_cast<size_t>(std::find(node.outputs.begin(), node.outputs.end(), id) - node.outputs.begin());
  return {std::make_shared<const Tensor>(outputs.at(at)),
          Provenance::transform(node.op, operands, at, node.outputs.size())};
}

// Each value once: one that is joined to itself over and over has as many ways to it as there are powers of 2.
std::optional<std::vector<Dim>> ConstantFinder::elements(ValueId id, int depth) {
  if (const auto it = elements_.find(id); it != elements_.end()) return it->second;
  return elements_[id] = find_elements(id, depth);
}

// Moves the numbers of the elements instead of the elements.
std::optional<std::vector<Dim>> ConstantFinder::find_elements(ValueId id, int depth) {
  const Value& value = graph_.value(id);
  if (value.content) return value.content;
  if (value.type.dtype != DType::i64 && value.type.dtype != DType::i32) return std::nullopt;
  if (!is_static(value.type.shape) || !is_short(value.type.shape)) return std::nullopt;
  if (const Constant constant = find(id, depth); constant.tensor) {
    fix_numbers(constant.provenance, "a list of sizes");
    const std::vector<int64_t> ints = constant.tensor->to_ints();
    return std::vector<Dim>(ints.begin(), ints.end());
  }
  const auto producer = producer_.find(id);
  if (producer == producer_.end() || depth >= most_producers) return std::nullopt;
  const Node& node = graph_.nodes[producer->second];
  if (node.op.as<ops::Cast>()) return elements(node.inputs[0], depth + 1);
  const bool gathers = node.op.as<ops::Gather>() != nullptr;
  const bool moves = node.inputs.size() == 1 && (node.op.as<ops::Reshape>() || node.op.as<ops::Transpose>() ||
                                                 node.op.as<ops::Slice>() || node.op.as<ops::Expand>());
  if (!gathers && !moves && !node.op.as<ops::Concat>()) return std::nullopt;
  std::vector<Dim> pool;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (gathers && i == 1) {
      const auto indices = find(node.inputs[1], depth + 1).tensor;
      if (!indices) return std::nullopt;
      inputs.push_back(*indices);
      continue;
    }
    const Shape& shape = graph_.shape(node.inputs[i]);
    const auto part = elements(node.inputs[i], depth + 1);
    if (!part || !is_static(shape)) return std::nullopt;
    Dims dims;
    for (const Dim& d : shape) dims.push_back(d.value());
    std::vector<int64_t> numbers(part->size());
    std::iota(numbers.begin(), numbers.end(), static_cast<int64_t>(pool.size()));
    pool.insert(pool.end(), part->begin(), part->end());
    inputs.push_back(Tensor::from_ints(numbers).reshaped(dims));
  }
  const std::vector<TensorType> types{{DType::i64, value.type.shape}};
  const std::vector<Tensor> moved = camshaft::evaluate(node.op, {inputs, types, {}, node.bodies, pool_});
  std::vector<Dim> out;
  for (const int64_t number : moved.at(0).to_ints()) out.push_back(pool.at(static_cast<size_t>(number)));
  return out;
}

}  // namespace camshaft::onnx

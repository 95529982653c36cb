#include "onnx/export/joined_lookups.h"

#include <algorithm>

#include "ir/ops/lookup.h"
#include "ir/ops/move.h"

namespace camshaft::onnx {

namespace {

/// Of keys and values that runtimes run in any pairing.
bool is_lookup_type(DType dtype) {
  return dtype == DType::string || dtype == DType::i64 || dtype == DType::f32;
}

/// Elements [begin, end) of a list.
Tensor part_of(const Tensor& list, int64_t begin, int64_t end) {
  const auto as = [&]<class T>(T) {
    return Tensor::of<T>(list.dtype(), {end - begin}, {list.as<T>() + begin, list.as<T>() + end});
  };
  if (list.dtype() == DType::string) return as(std::string());
  return list.dtype() == DType::i64 ? as(int64_t{}) : as(float{});
}

}  // namespace

std::optional<JoinedNodes> join_lookups(const Graph& graph, const Uses& uses, size_t first) {
  const Node& search = graph.nodes[first];
  const auto* find = search.op.as<ops::FindKeys>();
  if (!find || find->must_find) return std::nullopt;
  const Tensor* keys = graph.value(search.inputs[1]).constant.get();
  const auto found = static_cast<size_t>(search.outputs[0]);
  if (!keys || !is_lookup_type(keys->dtype()) || uses.is_output[found] || uses.readers[found].empty())
    return std::nullopt;
  JoinedNodes joined{{first}, true, {}, {}};
  std::vector<std::pair<Tensor, ValueId>> tables;
  for (const int32_t reader : uses.readers[found]) {
    const Node& node = graph.nodes[static_cast<size_t>(reader)];
    const auto* gather = node.op.as<ops::Gather>();
    if (!gather || gather->axis != 0 || node.inputs[1] != search.outputs[0]) return std::nullopt;
    const Tensor* table = graph.value(node.inputs[0]).constant.get();
    // The last one is for what is no key.
    if (!table || !is_lookup_type(table->dtype()) || table->dims() != Dims{keys->size() + 1}) return std::nullopt;
    joined.nodes.push_back(static_cast<size_t>(reader));
    joined.results.push_back(node.outputs[0]);
    tables.emplace_back(*table, node.outputs[0]);
  }
  std::sort(joined.nodes.begin(), joined.nodes.end());
  joined.write = [x = search.inputs[0], keys = *keys, tables](ExportContext& c) {
    for (const auto& [table, result] : tables) {
      Attributes attributes;
      attributes.tensor("keys_tensor", c.tensor(keys));
      attributes.tensor("values_tensor", c.tensor(part_of(table, 0, keys.size())));
      attributes.tensor("default_tensor", c.tensor(part_of(table, keys.size(), keys.size() + 1)));
      c.add_named({"LabelEncoder", 4, "ai.onnx.ml"}, {c.value(x)}, {c.value(result)}, std::move(attributes));
    }
  };
  return joined;
}

}  // namespace camshaft::onnx

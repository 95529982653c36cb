#include "onnx/converters.h"

#include <map>
#include <utility>

namespace camshaft::onnx {

namespace {

using Key = std::pair<std::string_view, std::string_view>;  // domain, op_type

std::multimap<Key, const Converter*> make_table() {
  std::multimap<Key, const Converter*> table;
  const auto add = [&](std::string_view domain, std::span<const Converter> group) {
    for (const Converter& c : group) table.emplace(Key(domain, c.op_type), &c);
  };
  add("", activation_converters());
  add("", attention_converters());
  add("", contraction_converters());
  add("", control_flow_converters());
  add("", generator_converters());
  add("", indexing_converters());
  add("", normalization_converters());
  add("", pointwise_converters());
  add("", pooling_converters());
  add("", recurrent_converters());
  add("", reduction_converters());
  add("", resize_converters());
  add("", shape_converters());
  add("ai.onnx.preview", preview_converters());
  add("com.microsoft", microsoft_converters());
  return table;
}

}  // namespace

const Converter* find_converter(std::string_view domain, std::string_view op_type, int64_t opset) {
  static const auto table = make_table();
  const Converter* best = nullptr;
  const auto [begin, end] = table.equal_range({domain == "ai.onnx" ? "" : domain, op_type});
  for (auto it = begin; it != end; ++it)
    if (it->second->since <= opset && (!best || it->second->since > best->since)) best = it->second;
  return best;
}

}  // namespace camshaft::onnx

#include "onnx/converters.h"

#include <algorithm>
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
  add("", image_converters());
  add("", indexing_converters());
  add("", normalization_converters());
  add("", optional_converters());
  add("", pointwise_converters());
  add("", pooling_converters());
  add("", random_converters());
  add("", recurrent_converters());
  add("", quantization_converters());
  add("", reduction_converters());
  add("", resize_converters());
  add("", loss_converters());
  add("", select_converters());
  add("", scan_converters());
  add("", sequence_converters());
  add("", shape_converters());
  add("", signal_converters());
  add("", vision_converters());
  add("ai.onnx.preview", preview_converters());
  add("com.microsoft", microsoft_attention_converters());
  add("com.microsoft", microsoft_packed_converters());
  add("com.microsoft", microsoft_paged_converters());
  add("com.microsoft", microsoft_converters());
  add("com.microsoft", microsoft_quantized_converters());
  add("com.microsoft", microsoft_quantized_layer_converters());
  add("com.microsoft", microsoft_weight_converters());
  add("", string_converters());
  add("ai.onnx.ml", feature_converters());
  add("ai.onnx.ml", linear_model_converters());
  add("ai.onnx.ml", map_converters());
  add("ai.onnx.ml", tree_ensemble_converters());
  add("com.microsoft", microsoft_string_converters());
  add("com.microsoft", microsoft_fused_converters());
  add("com.microsoft", microsoft_other_converters());
  add("mmcv", mmcv_converters());
  add("mmdeploy", mmcv_converters());
  add("TRT", tensorrt_block_converters());
  add("TRT", tensorrt_converters());
  add("TRT", tensorrt_collective_converters());
  add("camshaft", camshaft_converters());
  add("camshaft", collective_converters());
  return table;
}

const std::multimap<Key, const Converter*>& all_converters() {
  static const auto table = make_table();
  return table;
}

}  // namespace

int64_t first_readable_opset(std::string_view op_type) {
  // Operators whose attributes or inputs were others before. All else means the same since operator set 1: what
  // changed until 7 is the list of types, a hint about memory ('consumed_inputs'), and the attributes 'broadcast',
  // 'axis' and 'is_test', which the converters read.
  static constexpr std::pair<std::string_view, int64_t> changed[] = {
      {"Cast", 6},  // to a name
      {"Concat", 4}, {"GRU", 7},     {"GlobalLpPool", 2}, {"LSTM", 7}, {"LpPool", 2},   {"Pad", 2},
      {"RNN", 7},    {"Reshape", 5}, {"Split", 2},        {"Tile", 6}, {"Upsample", 7},
  };
  for (const auto& [name, since] : changed)
    if (name == op_type) return since;
  return 1;
}

const Converter* find_converter(std::string_view domain, std::string_view op_type, int64_t opset) {
  const Converter* best = nullptr;
  const bool is_default = domain.empty() || domain == "ai.onnx";
  // ONNX Runtime has TensorRT's plugins in a domain of its own.
  const bool is_plugin = domain == "trt.plugins" || (is_default && op_type.ends_with("_TRT"));
  if (is_plugin || (is_default && op_type == "DistCollective")) return find_converter("TRT", op_type, opset);
  const auto [begin, end] = all_converters().equal_range({is_default ? "" : domain, op_type});
  for (auto it = begin; it != end; ++it)
    if (it->second->since <= opset && (!best || it->second->since > best->since)) best = it->second;
  // Some of TensorRT's plugins have names without an ending.
  if (!best && is_default && begin == end && all_converters().contains({"TRT", op_type}))
    return find_converter("TRT", op_type, opset);
  return best;
}

std::vector<KnownOperator> known_operators() {
  std::vector<KnownOperator> known;
  for (const auto& [key, converter] : all_converters()) {
    const auto& [domain, op_type] = key;
    const int64_t since = std::max(converter->since, domain.empty() ? first_readable_opset(op_type) : 1);
    if (!known.empty() && known.back().domain == domain && known.back().op_type == op_type) {
      known.back().since = std::min(known.back().since, since);
    } else {
      known.push_back({domain, op_type, since});
    }
  }
  return known;
}

}  // namespace camshaft::onnx

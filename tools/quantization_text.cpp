#include "tools/quantization_text.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "tools/tensor_text.h"

namespace camshaft::tools {

std::string format_some(const std::vector<std::string>& names) {
  constexpr size_t most = 3;
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > most ? text + ", …" : text;
}

namespace {

// Layers that are fused have one time.
std::string format_saved(const std::vector<LayerPlacement>& layers) {
  std::set<std::pair<double, double>> times;
  for (const LayerPlacement& layer : layers)
    if (layer.quantized) times.emplace(layer.float_seconds, layer.int8_seconds);
  double in_float = 0, in_int8 = 0;
  for (const auto& [of_float, of_int8] : times) in_float += of_float, in_int8 += of_int8;
  if (in_int8 == 0) return "";
  return fmt::format(", which take {} in place of {}", format_seconds(in_int8), format_seconds(in_float));
}

}  // namespace

void print_quantization(const std::vector<LayerPlacement>& layers) {
  std::map<std::string, std::vector<std::string>> kept;  // by the reason
  size_t quantized = layers.size();
  for (const LayerPlacement& layer : layers)
    if (!layer.quantized) kept[layer.reason].push_back(layer.layer), --quantized;
  fmt::print("precision {} of {} convolutions and products with constant weights in {}{}\n", quantized, layers.size(),
             layers.empty() || layers[0].precision.empty() ? "int8" : layers[0].precision, format_saved(layers));
  for (const auto& [reason, names] : kept) fmt::print("precision fp32, as {}: {}\n", reason, format_some(names));
}

}  // namespace camshaft::tools

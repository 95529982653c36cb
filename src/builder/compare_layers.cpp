#include "builder/compare_layers.h"

#include <fmt/format.h>

#include <numeric>
#include <unordered_map>

namespace camshaft {

namespace {

// Sets of the model's nodes, merged as layers turn out to have them in common.
class NodeSets {
 public:
  size_t add(const std::string& node) {
    const auto [it, is_new] = index_.emplace(node, parents_.size());
    if (is_new) parents_.push_back(it->second);
    return root(it->second);
  }
  void merge(const std::vector<std::string>& nodes) {
    for (const std::string& node : nodes) parents_[add(node)] = add(nodes.front());
  }
  size_t size() const { return parents_.size(); }

 private:
  size_t root(size_t i) {
    while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
    return i;
  }

  std::unordered_map<std::string, size_t> index_;
  std::vector<size_t> parents_;
};

}  // namespace

void compare_layers(const std::vector<LayerTime>& high, const std::vector<LayerTime>& low,
                    std::vector<LayerPlacement>& placed) {
  NodeSets sets;
  for (const auto* layers : {&high, &low})
    for (const LayerTime& layer : *layers)
      if (!layer.sources.empty()) sets.merge(layer.sources);
  for (const LayerPlacement& layer : placed) sets.add(layer.layer);
  const auto seconds = [&](const std::vector<LayerTime>& layers) {
    std::vector<double> of_sets(sets.size());
    for (const LayerTime& layer : layers)
      if (!layer.sources.empty()) of_sets[sets.add(layer.sources.front())] += layer.seconds;
    return of_sets;
  };
  const std::vector<double> of_high = seconds(high), of_low = seconds(low);
  for (LayerPlacement& layer : placed) {
    const size_t set = sets.add(layer.layer);
    layer.float_seconds = of_high[set];
    layer.int8_seconds = of_low[set];
  }
}

KeptLayers slower_layers(const std::vector<LayerPlacement>& placed) {
  // Two measurements of the same layer differ by some percent.
  constexpr double noise = 1.03, micro = 1e6;
  KeptLayers slower;
  for (const LayerPlacement& layer : placed)
    if (layer.quantized && layer.int8_seconds > noise * layer.float_seconds)
      slower.emplace(layer.layer, fmt::format("{} is slower with its conversions: {:.1f} us, not {:.1f}",
                                              EnumNames<LayerPrecision>::values[static_cast<size_t>(layer.precision)],
                                              layer.int8_seconds * micro, layer.float_seconds * micro));
  return slower;
}

}  // namespace camshaft

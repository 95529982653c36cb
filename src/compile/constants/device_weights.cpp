#include "compile/constants/device_weights.h"

#include <utility>

namespace camshaft {

namespace {

thread_local DeviceWeightUses* weight_uses_of_thread = nullptr;

}  // namespace

DeviceWeightUses::DeviceWeightUses(bool defers, std::vector<DeviceWeights> known)
    : list(std::move(known)), defers_(defers) {
  weight_uses_of_thread = this;
}

DeviceWeightUses::~DeviceWeightUses() {
  weight_uses_of_thread = nullptr;
}

bool DeviceWeightUses::note(const DeviceWeights& weights) {
  if (!weight_uses_of_thread) return false;
  weight_uses_of_thread->list.push_back(weights);
  return weight_uses_of_thread->defers_;
}

std::optional<DeviceWeights> DeviceWeightUses::find(std::span<const std::byte> bytes) {
  if (!weight_uses_of_thread) return std::nullopt;
  for (const DeviceWeights& weights : weight_uses_of_thread->list)
    if (weights.bytes().data() == bytes.data() && weights.bytes().size() == bytes.size()) return weights;
  return std::nullopt;
}

}  // namespace camshaft

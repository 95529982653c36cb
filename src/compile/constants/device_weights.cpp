#include "compile/constants/device_weights.h"

namespace camshaft {

namespace {

thread_local DeviceWeightUses* weight_uses_of_thread = nullptr;

}  // namespace

DeviceWeightUses::DeviceWeightUses(bool defers) : defers_(defers) {
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

}  // namespace camshaft

#include "backends/cuda/tactics/bring_weights.h"

#include "backends/cuda/driver/stream.h"

namespace camshaft::cuda {

DeviceWeights bring_weights(const std::shared_ptr<const Device>& device, std::span<const std::byte> packed) {
  if (auto known = DeviceWeightUses::find(packed)) return *std::move(known);
  DeviceWeights weights(packed);
  if (DeviceWeightUses::note(weights)) return weights;
  // The device first: it must be there when the buffer is freed.
  struct Held {
    std::shared_ptr<const Device> device;
    DeviceBuffer buffer;
  };
  const auto held = std::make_shared<Held>(Held{device, upload(*device, packed, "the weights of an engine")});
  weights.place({held, held->buffer.data()});
  return weights;
}

}  // namespace camshaft::cuda

// The packed weights of a kernel, on the device.
#pragma once

#include <memory>
#include <span>

#include "backends/cuda/driver/device.h"
#include "compile/constants/device_weights.h"

namespace camshaft::cuda {

/// Brings weights to the device, or leaves that to whoever defers it (DeviceWeightUses). `packed`: of the engine's
/// packed constants; what another kernel of the layer has brought is shared. Throws Error(out_of_memory).
DeviceWeights bring_weights(const std::shared_ptr<const Device>& device, std::span<const std::byte> packed);

}  // namespace camshaft::cuda

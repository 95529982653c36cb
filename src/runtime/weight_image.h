// Where the weights of an engine lie in one range of its device's addresses.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compile/plan/plan.h"
#include "runtime/weight_stream.h"

namespace camshaft {

/// All constants that steps on a device read there, packed and plain, in the order in which steps read them first; but
/// those come first that steps far from each other read, so that few blocks have some of them.
struct WeightImage {
  struct Part {
    std::span<const std::byte> bytes;  ///< on the host
    size_t offset = 0;
  };
  std::vector<Part> parts;  ///< by offset
  size_t bytes = 0;
  StepBlocks steps;  ///< of each step of the plan its parts, in ascending order
};

WeightImage lay_out_weights(const Plan& plan, DeviceId device);
/// In blocks of `block_bytes`.
WeightBlocks blocks_of(const WeightImage& image, size_t block_bytes);
/// `memory` is where the image is: the plan's kernels and values find their weights there. Who places them brings them.
void place_weights(Plan& plan, const WeightImage& image, DeviceId device, const std::shared_ptr<std::byte>& memory);

}  // namespace camshaft

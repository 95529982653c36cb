#include "backends/cuda/codegen/device_text.h"

#include "device_texts.h"

namespace camshaft::cuda {

std::string device_text(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : {device::numbers_h, device::intrinsics_cuh, device::divisor_h, device::scalar_cuh})
    text += part;
  for (const std::string_view part : parts) text += part;
  return text;
}

}  // namespace camshaft::cuda

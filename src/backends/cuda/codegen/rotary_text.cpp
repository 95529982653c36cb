#include "backends/cuda/codegen/rotary_text.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

std::string rotary_text(DType rows, DType tables) {
  std::string text(device::intrinsics_cuh);
  for (const std::string_view part : {device::scalar_cuh, device::rotary_embedding_cuh}) text += part;
  return text + fmt::format(R"(
extern "C" __global__ void __launch_bounds__(256) rotate_any(const __grid_constant__ Rotary r, const {0}* x,
                                                             const {1}* cosines, const {1}* sines, {0}* y) {{
  take_turn();
  rotate(r, x, cosines, sines, y);
}}
)",
                            device_type(rows), device_type(tables));
}

}  // namespace camshaft::cuda

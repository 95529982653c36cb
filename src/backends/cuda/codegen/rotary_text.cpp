#include "backends/cuda/codegen/rotary_text.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

std::string rotary_text(DType rows, DType tables) {
  return device_text({device::rotary_embedding_parameters_h, device::rotary_embedding_cuh}) +
         fmt::format(R"(
extern "C" __global__ void __launch_bounds__(256) rotate_any(const __grid_constant__ RotaryParameters r, const {0}* x,
                                                             const {1}* cosines, const {1}* sines, {0}* y) {{
  take_turn();
  rotate(r, x, cosines, sines, y);
}}
)",
                     device_type(rows), device_type(tables));
}

}  // namespace camshaft::cuda

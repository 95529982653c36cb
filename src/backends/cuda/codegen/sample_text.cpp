#include "backends/cuda/codegen/sample_text.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

static_assert(static_cast<int>(ops::SampleMode::linear) == 0 && static_cast<int>(ops::SampleMode::cubic) == 2 &&
              static_cast<int>(ops::SamplePadding::zeros) == 0 &&
              static_cast<int>(ops::SamplePadding::reflection) == 2);

std::string grid_sample_text(const ops::GridSample& op, int axes, DType dtype, DType grid_dtype) {
  std::string text = device_text({device::sample_parameters_h});
  text += fmt::format(
      "constexpr int axes = {}, sample_mode = {}, sample_padding = {};\nconstexpr bool align_corners = {};\n", axes,
      static_cast<int>(op.mode), static_cast<int>(op.padding), op.align_corners);
  text += device::sample_cuh;
  return text + fmt::format(R"(
extern "C" __global__ void __launch_bounds__(256) grid_sample_any(const __grid_constant__ GridSampleParameters p, const {0}* x,
                                                                  const {1}* grid, {0}* out) {{
  take_turn();
  grid_sample(p, x, grid, out);
}}
)",
                            device_type(dtype), device_type(grid_dtype));
}

std::string col2im_text(DType dtype) {
  return device_text({device::col2im_parameters_h, device::col2im_cuh}) + fmt::format(R"(
extern "C" __global__ void __launch_bounds__(256) col2im_any(const __grid_constant__ Col2ImParameters p, const {0}* columns, {0}* out) {{
  take_turn();
  col2im(p, columns, out);
}}
)",
                                                                                      device_type(dtype));
}

}  // namespace camshaft::cuda

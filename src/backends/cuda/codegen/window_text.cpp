#include "backends/cuda/codegen/window_text.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

std::string with_window(const PoolWindow& window) {
  std::string text = device_text({device::pool_parameters_h});
  const char* axes[] = {"depth", "height", "width"};
  int64_t taps = 1;
  for (size_t a = 0; a < 3; ++a) {
    text += fmt::format("constexpr i32 kernel_{0} = {1}, stride_{0} = {2}, dilation_{0} = {3};\n", axes[a],
                        window.kernel[a], window.stride[a], window.dilation[a]);
    taps *= window.kernel[a];  // each is below 2^20
  }
  text += fmt::format("constexpr i64 taps = {};\nconstexpr bool average = {}, count_padding = {};\n", taps,
                      window.average, window.count_padding);
  return text + std::string(device::pool_cuh);
}

}  // namespace

std::string pool_text(const PoolWindow& window, DType dtype) {
  return with_window(window) + fmt::format(R"(
extern "C" __global__ void __launch_bounds__(256) pool_any(const __grid_constant__ PoolParameters p, const {0}* in, {0}* out) {{
  take_turn();
  pool<{0}, 1>(p, in, out);
}}
extern "C" __global__ void __launch_bounds__(256) pool_vector(const __grid_constant__ PoolParameters p, const {0}* in, {0}* out) {{
  take_turn();
  pool<{0}, {1}>(p, in, out);
}}
)",
                                           device_type(dtype), 128 / bit_width(dtype));
}

std::string pool_indices_text(const PoolWindow& window, DType dtype) {
  return with_window(window) + fmt::format(R"(
extern "C" __global__ void __launch_bounds__(256) pool_indices_any(const __grid_constant__ PoolParameters p, u32 column_major,
                                                                   const {}* in, i64* out) {{
  take_turn();
  pool_indices(p, column_major != 0, in, out);
}}
)",
                                           device_type(dtype));
}

std::string resize_text(int axes, DType dtype) {
  return device_text({device::resize_parameters_h, device::resize_cuh}) + fmt::format(R"(
extern "C" __global__ void __launch_bounds__(256) interpolate_any(const __grid_constant__ ResizeParameters p,
                                                                  const {0}* in, {0}* out) {{
  take_turn();
  interpolate<{0}, 1, {1}>(p, in, out);
}}
extern "C" __global__ void __launch_bounds__(256) interpolate_vector(const __grid_constant__ ResizeParameters p,
                                                                     const {0}* in, {0}* out) {{
  take_turn();
  interpolate<{0}, {2}, {1}>(p, in, out);
}}
)",
                                                                                      device_type(dtype), axes,
                                                                                      128 / bit_width(dtype));
}

}  // namespace camshaft::cuda

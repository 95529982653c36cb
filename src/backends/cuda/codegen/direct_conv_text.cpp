#include "backends/cuda/codegen/direct_conv_text.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

std::string with_window(const DirectWindow& window, std::string_view parameters) {
  std::string text =
      device_text({device::contract_parameters_h, device::contract_columns_cuh, device::channels_cuh, parameters});
  const char* axes[] = {"height", "width"};
  for (size_t a = 0; a < 2; ++a)
    text += fmt::format("constexpr i32 kernel_{0} = {1}, stride_{0} = {2}, dilation_{0} = {3};\n", axes[a],
                        window.kernel[a], window.stride[a], window.dilation[a]);
  return text;
}

}  // namespace

std::string depthwise_text(const DirectWindow& window, DType dtype, const std::string& finish) {
  std::string text = with_window(window, device::depthwise_parameters_h);
  text += device::depthwise_cuh;
  text += finish;
  for (const auto& [name, pixels] : {std::pair{"pixel", 1}, std::pair{"strip", depthwise_strip}})
    for (const bool vector : {false, true})
      text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) depthwise_{}_{}(const __grid_constant__ DepthwiseParameters p) {{
  take_turn();
  depthwise<{}, {}, {}, Finish>(p);
}}
)",
                          direct_threads, name, vector ? "vector" : "any", device_type(dtype), pixels, vector);
  return text;
}

std::string conv_transpose_text(const DirectWindow& window, DType dtype, const std::string& finish) {
  std::string text = with_window(window, device::conv_transpose_parameters_h);
  text += device::conv_transpose_cuh;
  text += finish;
  for (const bool vector : {false, true})
    text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) conv_transpose_{}(const __grid_constant__ ConvTransposeParameters p) {{
  take_turn();
  conv_transpose<{}, {}, Finish>(p);
}}
)",
                        direct_threads, vector ? "vector" : "any", device_type(dtype), vector);
  return text;
}

}  // namespace camshaft::cuda

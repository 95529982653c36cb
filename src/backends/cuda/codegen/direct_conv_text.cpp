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

std::string DepthwiseFunction::name() const {
  if (lines > 0) return fmt::format("depthwise_{}_lines", lines);
  return fmt::format("depthwise_{}_{}{}", strips ? "strip" : "pixel", rows ? "rows_" : "", vector ? "vector" : "any");
}

bool can_share_rows(const DirectWindow& window) {
  constexpr int64_t most_rows = 16;
  return window.kernel[0] > 1 && window.kernel[0] <= most_rows;
}

unsigned threads_of_rows(const DirectWindow& window) {
  return 32 * static_cast<unsigned>(window.kernel[0]);
}

bool can_take_lines(const DirectWindow& window) {
  // Its values and weights have registers and shared memory then.
  constexpr int64_t most_columns = 16, most_taps = 128;
  const auto& [kernel, stride, dilation] = window;
  return kernel[0] > 1 && kernel[0] * kernel[1] <= most_taps &&
         (depthwise_strip - 1) * stride[1] + (kernel[1] - 1) * dilation[1] < most_columns;
}

std::string depthwise_text(const DirectWindow& window, DType dtype, const std::string& finish,
                           const std::optional<DepthwiseFunction>& further) {
  std::string text = with_window(window, device::depthwise_parameters_h);
  text += device::depthwise_cuh;
  text += finish;
  const auto add = [&](const DepthwiseFunction& f) {
    text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) {}(const __grid_constant__ DepthwiseParameters p) {{
  take_turn();
  depthwise{}<{}, {}, {}, Finish>(p);
}}
)",
                        f.rows ? threads_of_rows(window) : direct_threads, f.name(), f.rows ? "_by_rows" : "",
                        device_type(dtype), f.strips ? depthwise_strip : 1, f.vector);
  };
  for (const bool vector : {false, true}) {
    for (const bool strips : {false, true}) add({strips, false, vector});
    if (further && further->rows) add({further->strips, true, vector});
  }
  if (further && further->lines > 0)
    text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}, 3) {}(const __grid_constant__ DepthwiseParameters p) {{
  depthwise_by_lines<{}, {}, {}, Finish>(p);
}}
)",
                        direct_threads, further->name(), device_type(dtype), depthwise_strip, further->lines);
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

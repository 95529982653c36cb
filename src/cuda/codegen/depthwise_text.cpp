#include "cuda/codegen/depthwise_text.h"

#include <fmt/format.h>

#include "cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

std::string depthwise_text(const DepthwiseWindow& window, DType dtype, const std::string& finish) {
  std::string text;
  for (const std::string_view part :
       {device::intrinsics_cuh, device::scalar_cuh, device::contract_parameters_cuh, device::contract_cuh})
    text += part;
  const char* axes[] = {"height", "width"};
  for (size_t a = 0; a < 2; ++a)
    text += fmt::format("constexpr i32 kernel_{0} = {1}, stride_{0} = {2}, dilation_{0} = {3};\n", axes[a],
                        window.kernel[a], window.stride[a], window.dilation[a]);
  text += device::depthwise_cuh;
  text += finish;
  for (const auto& [name, pixels] : {std::pair{"pixel", 1}, std::pair{"strip", depthwise_strip}})
    for (const bool vector : {false, true})
      text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) depthwise_{}_{}(const __grid_constant__ Depthwise p) {{
  depthwise<{}, {}, {}, Finish>(p);
}}
)",
                          depthwise_threads, name, vector ? "vector" : "any", device_type(dtype), pixels, vector);
  return text;
}

}  // namespace camshaft::cuda

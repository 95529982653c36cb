#include "backends/cuda/codegen/select_text.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

std::string top_k_text(DType dtype) {
  std::string text(device::intrinsics_cuh);
  for (const std::string_view part : {device::scalar_cuh, device::top_k_cuh}) text += part;
  return text + fmt::format(R"(
extern "C" __global__ void __launch_bounds__(256) select_chunk_any(const __grid_constant__ Selection p, const {0}* x,
                                                                   const u64* in, u64* out, {0}* values, i64* indices) {{
  take_turn();
  select_chunk(p, x, in, out, values, indices);
}}
extern "C" __global__ void __launch_bounds__(256) merge_far_any(u32 pairs, u32 size, u32 stride, u32 line_keys, u64* keys) {{
  take_turn();
  merge_far(pairs, size, stride, line_keys, keys);
}}
extern "C" __global__ void __launch_bounds__(256) merge_near_any(const __grid_constant__ Selection p, u32 size, u64* keys,
                                                                 const {0}* x, {0}* values, i64* indices) {{
  take_turn();
  merge_near(p, size, keys, x, values, indices);
}}
)",
                            device_type(dtype));
}

}  // namespace camshaft::cuda

#include "backends/cuda/codegen/select_text.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

std::string top_k_text(DType dtype) {
  return device_text({device::top_k_parameters_h, device::top_k_cuh}) + fmt::format(R"(
extern "C" __global__ void __launch_bounds__(256) select_chunk_any(const __grid_constant__ TopKParameters p, const {0}* x,
                                                                   const u64* in, u64* out, {0}* values, i64* indices) {{
  take_turn();
  select_chunk(p, x, in, out, values, indices);
}}
extern "C" __global__ void __launch_bounds__(256) merge_far_any(const __grid_constant__ TopKMergeParameters p, u64* keys) {{
  take_turn();
  merge_far(p, keys);
}}
extern "C" __global__ void __launch_bounds__(256) merge_near_any(const __grid_constant__ TopKParameters p, u32 size, u64* keys,
                                                                 const {0}* x, {0}* values, i64* indices) {{
  take_turn();
  merge_near(p, size, keys, x, values, indices);
}}
)",
                                                                                    device_type(dtype));
}

}  // namespace camshaft::cuda

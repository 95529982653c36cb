#include "backends/cuda/codegen/gather_matmul_text.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

std::string gather_matmul_text(DType rows, DType matrices) {
  const auto kernel = [&](const char* name, int chunk, int count) {
    return fmt::format(R"(
extern "C" __global__ void __launch_bounds__({5})
    {0}(const __grid_constant__ GatherMatMulParameters p, const {1}* x, const void* indices, const {2}* w, {1}* y) {{
  take_turn();
  gather_matmul<{1}, {2}, {3}, {4}>(p, x, indices, w, y);
}}
)",
                       name, device_type(rows), device_type(matrices), chunk, count, gather_matmul_threads);
  };
  return device_text({device::gather_matmul_parameters_h, device::gather_matmul_cuh}) +
         kernel("gather_matmul_one", 1, 1) + kernel("gather_matmul_chunks", gather_matmul_chunk, 1) +
         kernel("gather_matmul_rows", gather_matmul_chunk, gather_matmul_rows);
}

}  // namespace camshaft::cuda

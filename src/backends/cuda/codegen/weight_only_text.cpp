#include "backends/cuda/codegen/weight_only_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

int WeightOnlyForm::shared_bytes(int slab, int rows) const {
  constexpr int element = 2, sum_pitch = 20, float_bytes = 4;
  const int of_rows = rows * parts() * (slab * chunk() + 8) * element;
  const int of_sums = (warps * tiles * 8 * sum_pitch + rows * columns) * float_bytes;
  return std::max(of_rows, of_sums);
}

std::string weight_only_text(const WeightOnlyForm& form, const std::string& finish, const std::string& rows) {
  return device_text({device::contract_parameters_h, device::weight_only_parameters_h, device::contract_columns_cuh,
                      device::cluster_sums_cuh, device::row_sums_cuh, device::step_fragments_cuh,
                      device::weight_only_cuh}) +
         (rows.empty() ? std::string(device::row_source_cuh) : rows) + finish +
         fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}, {}) weight_only(const __grid_constant__ WeightOnlyParameters p) {{
  WeightOnly<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, Finish>::run(p);
}}
)",
                     form.threads(), form.least_blocks(), device_type(form.x),
                     rows.empty() ? "StoredRows" : "ComputedRows", device_type(form.scale), form.bits, form.group,
                     form.dense, form.one_block, form.has_zeros, form.tiles, form.warps, form.depth);
}

std::string expand_text(const ExpandForm& form) {
  constexpr std::string_view zeros[] = {"one", "bytes", "floats"};
  return device_text({device::contract_parameters_h, device::weight_only_parameters_h, device::expand_steps_cuh}) +
         fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) expand(const __grid_constant__ ExpandParameters p, u32 all_chunks) {{
  expand_steps<{}, {}, {}, Zeros::{}>(p, all_chunks);
}}
)",
                     ExpandForm::threads, device_type(form.to), device_type(form.scale), form.bits,
                     zeros[static_cast<size_t>(form.zeros)]);
}

}  // namespace camshaft::cuda

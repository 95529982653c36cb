#include "backends/cuda/codegen/few_rows_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/device/contract_parameters.h"
#include "device_texts.h"

namespace camshaft::cuda {

int FewRowsForm::least_blocks() const {
  // As many as have room beside the next kernel's, whose weights come meanwhile.
  const int most_threads = rows > 1 ? 512 : computes_rows ? 768 : 1024;
  return std::max(1, most_threads / threads());
}

int FewRowsForm::shared_bytes(int slab) const {
  constexpr int float_bytes = 4, barrier_bytes = cluster_barrier_bytes;
  const int of_rows = rows * slab * 512, of_sums = float_bytes * rows * (warps * columns_of_warp + columns() * cluster);
  return barrier_bytes + of_rows + of_sums;
}

std::string few_rows_text(const FewRowsForm& form, const std::string& finish, const std::string& computed_rows) {
  constexpr int least_rows = 8;  // of device/row_norm.cuh
  return device_text({device::contract_parameters_h, device::few_rows_parameters_h, device::contract_columns_cuh,
                      device::cluster_sums_cuh, device::few_rows_cuh}) +
         (form.computes_rows ? computed_rows : std::string(device::row_source_cuh)) +
         fmt::format("constexpr u32 tile_rows = {}, tile_columns = {}, tile_threads = {};\n",
                     std::max(form.rows, least_rows), form.columns() * form.cluster, form.threads()) +
         finish +
         fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}, {}) few_rows(const __grid_constant__ FewRowsParameters p) {{
  FewRows<{}, {}, {}, {}, {}, {}, Finish>::run(p);
}}
)",
                     form.threads(), form.least_blocks(), device_type(form.dtype),
                     form.computes_rows ? "ComputedRows" : "StoredRows", form.whole, form.rows, form.warps,
                     form.shares);
}

}  // namespace camshaft::cuda

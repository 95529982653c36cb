#include "cuda/codegen/contract_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

int ContractTile::shared_bytes() const {
  return std::max(stages * (m + n) * 128, m * (n + 4) * 4);
}

std::string contract_text(const ContractForm& form, const ContractTile& tile, const std::string& finish) {
  std::string text;
  for (const std::string_view part :
       {device::intrinsics_cuh, device::scalar_cuh, device::contract_parameters_cuh, device::contract_cuh})
    text += part;
  text += finish;
  std::string window = "NoWindow";
  if (const auto& w = form.window)
    window = fmt::format("Window<{}, {}, {}, {}, {}, {}, {}, {}>", w->channels, w->height, w->width, w->stride_y,
                         w->stride_x, w->dilation_y, w->dilation_x, w->row_is_tap);
  text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) contract(const __grid_constant__ ContractParameters p) {{
  Contract<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, Finish>::run(p);
}}
)",
                      tile.threads(), device_type(form.dtype), tile.m, tile.n, tile.warps_m, tile.warps_n, tile.warps_k,
                      tile.stages, window, form.b_by_columns, form.tensor_cores, form.aligned);
  return text;
}

}  // namespace camshaft::cuda

#include "backends/cuda/codegen/contract_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

int ContractTile::shared_bytes() const {
  return shared_bytes(stages);
}

int ContractTile::shared_bytes(int slices) const {
  const int sums = from_registers ? 0 : m * (n + 4) * 4;
  const int barriers = persistent ? (2 * stages + 2) * 8 : 0;
  return std::max((persistent ? stages : std::min(slices, stages)) * ((m + n) * 128 + step_bytes), sums) + barriers;
}

int step_bytes_of(const ContractForm& form, const ContractTile& tile) {
  if (!form.steps) return 0;
  // As device/step_slices.cuh has them.
  const int matrices = 64 / bit_width(form.dtype), scales = matrices / form.steps->shared;
  const int of_lane =
      matrices * form.steps->bits + scales * (2 * bit_width(form.steps->scale) / 8 + (form.steps->has_zeros ? 4 : 0));
  return tile.n / 16 * 32 * of_lane;
}

int ContractTile::cluster_bytes(int splits) const {
  const int group = std::min(m, 8 * threads() / n), groups = m / group;  // of rows that all threads finish together
  return (groups + splits - 1) / splits * splits * group * (n + 4) * 4;
}

namespace {

// Threads, and blocks that a multiprocessor's registers are to hold: while one finishes its sums another one
// multiplies. Left to itself the compiler takes registers for what a block reads of residuals until there is room for
// one alone.
std::string launch_bounds(const ContractTile& tile) {
  constexpr int registers = 1 << 16, beside_sums = 64;
  if (tile.persistent) return fmt::format("{}, 1", tile.threads_of_block());
  if (!tile.from_registers) return std::to_string(tile.threads());
  const int blocks = registers / (tile.m * tile.n + beside_sums * tile.threads());
  return fmt::format("{}, {}", tile.threads(), std::max(1, blocks));
}

}  // namespace

bool can_use_patches(const ContractForm& form, const DeviceFeatures& features) {
  if (!form.window || bit_width(form.dtype) != 16 || !features.warpgroup_products) return false;
  const ContractWindow& w = *form.window;
  constexpr int64_t most_taps = 128;
  // Pairs of taps lie one behind the other in a patch.
  const bool goes_forth = w.width % 2 == 0 || w.stride_y <= 2;
  return w.channels == 8 && !w.row_is_tap && w.stride_x == 1 && w.stride_y <= 8 && w.dilation_x == 1 &&
         w.dilation_y == 1 && w.height * w.width % 2 == 0 && w.height <= most_taps && w.width <= most_taps &&
         w.height * w.width <= most_taps && goes_forth;
}

int patch_pitch(const ContractWindow& window, int columns) {
  return (columns + static_cast<int>(window.width) + 6) / 8 * 8;
}

int patch_bytes(const ContractWindow& window, const ContractTile& tile, int columns) {
  const auto taps = static_cast<int>(window.height * window.width), stride = static_cast<int>(window.stride_y);
  const int rows = stride * (tile.patch_rows + (static_cast<int>(window.height) - 1) / stride);
  // The last windows of a patch that are nobody's reach beyond it, by 64 pixels. (By 128, as compute-sanitizer takes
  // the matrix of 64 windows for 2,048 bytes in one piece, of which those beyond 1,040 overlap.)
  const int weights = (taps + 7) / 8 * tile.n * 128, beyond = (128 + static_cast<int>(window.width)) * 16;
  return weights + rows * patch_pitch(window, columns) * 16 + beyond;
}

std::string contract_text(const ContractForm& form, const ContractTile& tile, const std::string& finish) {
  std::string text =
      device_text({device::contract_parameters_h, device::contract_columns_cuh, device::contract_slices_cuh});
  if (tile.patch_rows > 0) {
    text += device::contract_patch_cuh;
  } else {
    if (form.steps) text += std::string(device::step_fragments_cuh) + std::string(device::step_slices_cuh);
    text += tile.by_warpgroups ? device::contract_warpgroup_cuh : device::contract_sums_cuh;
    text += device::contract_finish_cuh;
    text += tile.persistent ? device::contract_persistent_cuh : device::contract_cuh;
  }
  text += fmt::format("\nconstexpr u32 tile_rows = {}, tile_columns = {}, tile_threads = {};\n", tile.m, tile.n,
                      tile.threads()) +
          finish;
  std::string window = "NoWindow";
  if (const auto& w = form.window)
    window = fmt::format("Window<{}, {}, {}, {}, {}, {}, {}, {}, {}>", w->channels, w->height, w->width, w->stride_y,
                         w->stride_x, w->dilation_y, w->dilation_x, w->row_is_tap, w->padding);
  if (tile.patch_rows > 0)
    return text + fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) contract(const __grid_constant__ ContractParameters p) {{
  ContractPatch<{}, {}, {}, {}, {}, {}, Finish>::run(p);
}}
)",
                              tile.threads(), device_type(form.dtype), tile.n, tile.warps_m / 4, tile.patch_rows,
                              window, form.aligned);
  const std::string sums = tile.by_warpgroups ? fmt::format("WarpgroupSums<ItsTile, {}>", form.b_by_columns)
                           : form.tensor_cores || tile.tf32 ? fmt::format("WarpSums<ItsTile, {}>", form.b_by_columns)
                                                            : "PlainSums<ItsTile>";
  const std::string copies =
      form.steps ? fmt::format("StepSlices<ItsTile, {}, {}, {}, {}, {}>", device_type(form.steps->scale),
                               form.steps->bits, form.steps->shared, form.steps->has_zeros, form.aligned)
                 : fmt::format("Slices<ItsTile, {}, {}, {}>", window, form.b_by_columns, form.aligned);
  const std::string its_tile =
      fmt::format("\ntypedef Tile<{}, {}, {}, {}, {}, {}, {}, {}, {}> ItsTile;\n", device_type(form.dtype), tile.m,
                  tile.n, tile.warps_m, tile.warps_n, tile.warps_k, tile.stages, tile.waits, tile.from_registers);
  if (tile.persistent)
    return text + its_tile +
           fmt::format(R"(extern "C" __global__ void __launch_bounds__({})
contract(const __grid_constant__ ContractParameters p, const __grid_constant__ TensorMaps maps) {{
  PersistentContract<ItsTile, {}, {}, Finish>::run(p, maps);
}}
)",
                       launch_bounds(tile),
                       form.tensor_copies ? fmt::format("TensorCopies<ItsTile, {}>", tile.cluster)
                                          : fmt::format("ThreadCopies<ItsTile, {}>", copies),
                       sums);
  return text + its_tile +
         fmt::format(
             R"(extern "C" __global__ void __launch_bounds__({}) contract(const __grid_constant__ ContractParameters p) {{
  Contract<ItsTile, {}, {}, Finish>::run(p);
}}
)",
             launch_bounds(tile), copies, sums);
}

std::string finish_kernel_text(DType type, bool aligned, const std::string& finish) {
  return device_text({device::contract_parameters_h, device::contract_columns_cuh}) + finish +
         fmt::format(R"(
extern "C" __global__ void __launch_bounds__({threads}) finish(const __grid_constant__ ContractParameters p) {{
  take_turn();
  const u32 all = p.m * p.tiles.value;
  for (u32 at = blockIdx.x * {threads}u + threadIdx.x; at < all; at += gridDim.x * {threads}u) {{
    const u32 row = divide(at, p.tiles), column = (at - row * p.tiles.value) * columns_at_once;
    const u32 left = p.n - column, count = {aligned} || left > columns_at_once ? columns_at_once : left;
    const {type}* from = static_cast<const {type}*>(p.c) + u64(row) * p.c_row + column;
    {type} stored[columns_at_once];
    if ({aligned}) {{
      load(from, stored);
    }} else {{
      for (u32 i = 0; i < columns_at_once; ++i) stored[i] = i < count ? from[i] : {type}{{}};
    }}
    f32 sum[columns_at_once];
#pragma unroll
    for (int i = 0; i < columns_at_once; ++i) sum[i] = widen(stored[i]);
    finish_columns<Finish>(p, sum, row, column, count);
  }}
}}
)",
                     fmt::arg("threads", finish_threads), fmt::arg("aligned", aligned),
                     fmt::arg("type", device_type(type)));
}

}  // namespace camshaft::cuda

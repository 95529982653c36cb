#include "backends/cuda/codegen/paged_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "base/divide_up.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

// Keys of each warp: registers hold the scores of these and the sums of all values.
int wide_keys(const PagedForm& form) {
  return std::max(form.head_size, form.value_size) <= 128 ? 64 : 32;
}
int narrow_keys(const PagedForm& form) {
  return std::max(form.head_size, form.value_size) <= 64 ? 32 : 16;
}
int plain_keys(const PagedForm& form) {
  return std::max(form.head_size, form.value_size) <= 128 ? 32 : 16;
}

PagedTileSize matrix_tile(const PagedForm& form, const char* name, int warps_q, int warps_k, int warp_keys) {
  const auto head = static_cast<int>(round_up(form.head_size, 16)),
             value = static_cast<int>(round_up(form.value_size, 16));
  PagedTileSize tile{name, 16 * warps_q, warp_keys * warps_k, static_cast<unsigned>(32 * warps_q * warps_k)};
  constexpr int apart = 8;  // see PaddedRows
  const int tiles =
      2 * (tile.rows * (head + apart) + 2 * tile.keys * (head + apart + value + apart)) + 2 * 8 * tile.keys;
  const int sums = 4 * tile.rows * (warps_k * (value + 4) + warps_k + 2);
  tile.shared_bytes = static_cast<unsigned>(std::max(tiles, sums));
  return tile;
}

PagedTileSize plain_tile(const PagedForm& form, const char* name) {
  PagedTileSize tile{name, 16, plain_keys(form), 128};
  tile.shared_bytes =
      static_cast<unsigned>(8 * tile.keys + 4 * ((tile.rows + tile.keys) * (form.head_size | 1) +
                                                 tile.keys * form.value_size + tile.rows * (tile.keys + 1)));
  return tile;
}

std::string kernel(const std::string& name, unsigned threads, const std::string& call) {
  return fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) {}(const __grid_constant__ PagedParameters p, const Query* query, const Key* keys, const Value* values, const i32* starts, const i32* past, const i32* table, const f32* sink, const f32* key_scales, const f32* value_scales, const f32* relative_bias, Query* result, f32* partial, u32* counters, Complaint complaint) {{
  const PagedPointers at = {{query, keys, values, starts, past, table, sink, key_scales, value_scales, relative_bias, result, partial, counters}};
  {};
}}
)",
                     threads, name, call);
}

}  // namespace

std::string paged_store_text() {
  return device_text({device::wide_cuh, device::complaint_parameters_h, device::complaint_cuh,
                      device::paged_parameters_h, device::paged_slot_cuh, device::paged_store_cuh});
}

std::string paged_quantize_text(DType rows, DType cache) {
  return device_text({device::collective_cuh, device::complaint_parameters_h, device::complaint_cuh,
                      device::paged_parameters_h, device::paged_slot_cuh}) +
         fmt::format("typedef {} Row;\ntypedef {} Code;\n", device_type(rows), device_type(cache)) +
         std::string(device::paged_quantize_cuh);
}

PagedTiles paged_tiles(const PagedForm& form) {
  if (form.matrix_instructions)
    return {matrix_tile(form, "attend_wide", 4, 1, wide_keys(form)),
            matrix_tile(form, "attend_narrow", 1, 4, narrow_keys(form))};
  return {plain_tile(form, "attend_narrow"), plain_tile(form, "attend_narrow")};
}

std::string paged_attention_text(const PagedForm& form) {
  const PagedTiles tiles = paged_tiles(form);
  std::string text = device_text({device::collective_cuh, device::running_sum_cuh, device::complaint_parameters_h,
                                  device::complaint_cuh, device::paged_parameters_h}) +
                     fmt::format(R"(
typedef {} Query;
typedef {} Key;
typedef {} Value;
constexpr int head_size = {}, value_size = {};
constexpr bool key_scaled = {}, value_scaled = {};
constexpr bool capped = {}, biased = {};
constexpr bool tables_are_early = {};
constexpr bool approximate = {};  // exponentials, where results are rounded more than these
)",
                                 device_type(form.query), device_type(form.keys), device_type(form.values),
                                 form.head_size, form.value_size, form.key_scales, form.value_scales, form.capped,
                                 form.biased, form.tables_are_early, form.query != DType::f32) +
                     std::string(device::paged_attention_cuh);
  if (form.matrix_instructions) {
    text += fmt::format(R"(
typedef Query Element;
__device__ __forceinline__ void multiply(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {{ mma_{0}(d, a, b); }}
__device__ __forceinline__ u32 pack(f32 low, f32 high) {{ return f32_to_{0}_pair(low, high); }}
)",
                        to_string(form.query)) +
            std::string(device::attention_products_cuh) + std::string(device::paged_matrix_cuh) +
            kernel(tiles.wide.kernel, tiles.wide.threads,
                   fmt::format("attend<4, 1, {}>(p, at, complaint)", wide_keys(form))) +
            kernel(tiles.narrow.kernel, tiles.narrow.threads,
                   fmt::format("attend<1, 4, {}>(p, at, complaint)", narrow_keys(form)));
  } else {
    text +=
        std::string(device::paged_plain_cuh) + kernel(tiles.narrow.kernel, tiles.narrow.threads,
                                                      fmt::format("attend<{}>(p, at, complaint)", plain_keys(form)));
  }
  return text;
}

}  // namespace camshaft::cuda

#include "backends/cuda/codegen/paged_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/device/paged_parameters.h"
#include "base/divide_up.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

PagedTileSize matrix_tile(const PagedForm& form, int warps_q, int warps_k, int warp_keys) {
  const auto head = static_cast<int>(round_up(form.head_size, 16)),
             value = static_cast<int>(round_up(form.value_size, 16));
  PagedTileSize tile{warps_q, warps_k, warp_keys, 16 * warps_q, warp_keys * warps_k};
  constexpr int apart = 8;  // see PaddedRows
  const int tiles =
      2 * (tile.rows * (head + apart) + 2 * tile.keys * (head + apart + value + apart)) + 2 * 4 * tile.keys;
  const int found = 4 * tile.rows * warps_k * (value + 4);
  tile.shared_bytes = static_cast<unsigned>(std::max(tiles, found));
  return tile;
}

PagedTileSize plain_tile(const PagedForm& form) {
  PagedTileSize tile;
  tile.keys = std::max(form.head_size, form.value_size) <= 128 ? 32 : 16;
  const auto value = static_cast<int>(round_up(form.value_size, 16));
  const int tiles =
      4 * ((tile.rows + tile.keys) * (form.head_size | 1) + tile.keys * form.value_size + tile.rows * (tile.keys + 1));
  const int found = 4 * tile.rows * (value + 4);
  tile.shared_bytes = static_cast<unsigned>(4 * tile.keys + std::max(tiles, found));
  return tile;
}

// What all texts of a form begin with.
std::string form_text(const PagedForm& form) {
  return device_text({device::collective_cuh, device::running_sum_cuh, device::complaint_parameters_h,
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
                     device_type(form.query), device_type(form.keys), device_type(form.values), form.head_size,
                     form.value_size, form.key_scales, form.value_scales, form.capped, form.biased,
                     form.tables_are_early, form.query != DType::f32) +
         std::string(device::cluster_sums_cuh) + std::string(device::paged_attention_cuh);
}

std::string matrix_text(const PagedForm& form) {
  return form_text(form) +
         fmt::format(R"(
typedef Query Element;
__device__ __forceinline__ void multiply(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {{ mma_{0}(d, a, b); }}
__device__ __forceinline__ u32 pack(f32 low, f32 high) {{ return f32_to_{0}_pair(low, high); }}
)",
                     to_string(form.query)) +
         std::string(device::attention_products_cuh) + std::string(device::paged_matrix_cuh);
}

std::string kernel(const PagedTileSize& tile, const std::string& parameters, const std::string& call) {
  return fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) paged_attention(const __grid_constant__ PagedParameters p, {}const Query* query, const Key* keys, const Value* values, const i32* starts, const i32* past, const i32* table, const f32* sink, const f32* key_scales, const f32* value_scales, const f32* relative_bias, Query* result, f32* partial, u32* counters, Complaint complaint) {{
  const PagedPointers at = {{query, keys, values, starts, past, table, sink, key_scales, value_scales, relative_bias, result, partial, counters}};
  {};
}}
)",
                     tile.threads(), parameters, call);
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

unsigned PagedTileSize::cluster_bytes(int value_size, int parts) const {
  const int quads = rows * static_cast<int>(divide_up(value_size, 4)),
            share = static_cast<int>(divide_up(quads, parts));
  return static_cast<unsigned>(16 + 16 * parts * (rows + share));
}

unsigned PagedTileSize::step_bytes(const PagedForm& form) const {
  return most_step_tokens * sizeof(int32_t) + static_cast<unsigned>(2 * rows * (form.head_size + form.value_size));
}

PagedTileSize wide_paged_tile(const PagedForm& form) {
  // Registers hold the scores of a warp's keys and the sums of all values.
  return matrix_tile(form, 4, 1, std::max(form.head_size, form.value_size) <= 128 ? 64 : 32);
}

std::vector<PagedTileSize> narrow_paged_tiles(const PagedForm& form) {
  if (!form.matrix_instructions) return {plain_tile(form)};
  const int size = std::max(form.head_size, form.value_size);
  if (size <= 64) return {matrix_tile(form, 1, 4, 32), matrix_tile(form, 1, 4, 16), matrix_tile(form, 1, 8, 16)};
  if (size <= 128) return {matrix_tile(form, 1, 4, 16), matrix_tile(form, 1, 8, 16)};
  return {matrix_tile(form, 1, 4, 16)};
}

std::string paged_attention_text(const PagedForm& form, const PagedTileSize& tile) {
  if (form.matrix_instructions)
    return matrix_text(form) +
           kernel(tile, "",
                  fmt::format("attend<{}, {}, {}, NoPagedStep>(p, at, complaint, [](unsigned char*) {{ return 0; }})",
                              tile.warps_q, tile.warps_k, tile.warp_keys));
  return form_text(form) + std::string(device::paged_plain_cuh) +
         kernel(tile, "", fmt::format("attend<{}>(p, at, complaint)", tile.keys));
}

std::string paged_step_text(const PagedForm& form, const PagedTileSize& tile) {
  return matrix_text(form) +
         fmt::format("typedef {} Angle;\nconstexpr int rotated = {};\nconstexpr bool interleaved = {};\n",
                     device_type(form.update.angles), form.update.rotated, form.update.interleaved) +
         std::string(device::paged_step_cuh) +
         kernel(tile, "const __grid_constant__ PagedStepParameters s, ",
                fmt::format("attend<{0}, {1}, {2}, PagedStep>(p, at, complaint, [&](unsigned char* shared) {{ return "
                            "PagedStep<{3}, {4}>(s, shared); }})",
                            tile.warps_q, tile.warps_k, tile.warp_keys, tile.rows, tile.keys));
}

}  // namespace camshaft::cuda

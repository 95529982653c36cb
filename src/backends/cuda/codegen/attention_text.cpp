#include "backends/cuda/codegen/attention_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/rounded_steps.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/device/attention_parameters.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

int round_up(int n, int grain) {
  return (n + grain - 1) / grain * grain;
}

// Of each warp, or of each of 16 threads beside each other: registers hold the scores of these and the sums of all
// values.
struct Keys {
  int wide, narrow;
};

Keys keys_of(const AttentionForm& form) {
  const int widest = std::max(form.head_size, form.value_size);
  if (form.matrix_instructions) return {widest <= 128 ? 64 : 32, widest <= 64 ? 32 : 16};
  return {widest <= 64 ? 4 : 2, widest <= 64 ? 4 : 2};
}

std::string definitions(const AttentionForm& form) {
  return fmt::format(R"(
typedef {} Element;
constexpr int head_size = {}, value_size = {}, mask_count = {};
constexpr bool approximate = {};  // exponentials, where results are rounded more than these
constexpr bool capped = {};
typedef {} Result;
)",
                     device_type(form.dtype), form.head_size, form.value_size, form.masks.size(),
                     form.dtype != DType::f32, form.capped, device_type(form.steps ? form.steps->dtype : form.dtype));
}

// Of one mask, as numbers of the queries' type or as bits of what is seen: neighbouring keys are read together.
std::string mask_pair_functions(const AttentionForm& form) {
  const bool is_boolean = form.masks.size() == 1 && form.masks[0] == DType::boolean;
  const bool is_element = form.masks.size() == 1 && form.masks[0] == form.dtype && bit_width(form.dtype) == 16;
  return fmt::format(R"(
constexpr bool mask_has_pairs = {};
typedef {} MaskPair;
__device__ __forceinline__ MaskPair load_mask_pair(const void* mask, i64 at) {{
  return *reinterpret_cast<const MaskPair*>(static_cast<const unsigned char*>(mask) + at * (sizeof(MaskPair) / 2));
}}
__device__ __forceinline__ f32 masked_by_pair(const Attention& a, f32 score, MaskPair pair, int i) {{
  {}
}}
)",
                     is_boolean || is_element, is_boolean ? "u16" : "u32",
                     is_boolean   ? "return (pair >> (i * 8) & 0xff) != 0 ? score : a.mask[0].masked;"
                     : is_element ? "Element mask;\n  mask.bits = u16(pair >> (i * 16));\n  return score + widen(mask);"
                                  : "return score;");
}

std::string mask_function(const AttentionForm& form) {
  std::string text = R"(
template <bool direct, int rows>
__device__ __forceinline__ void mask_scores(const Attention& a, const MaskPointers& masks, const MaskRow (&row)[rows],
                                            u32 key, f32 (&score)[rows]) {
)";
  for (size_t m = 0; m < form.masks.size(); ++m) {
    const std::string element = fmt::format("mask{0}[row[r].at[{0}]]", m);
    const std::string change = form.masks[m] == DType::boolean
                                   ? fmt::format("{}.byte != 0 ? score[r] : a.mask[{}].masked", element, m)
                                   : fmt::format("score[r] + widen({})", element);
    text += fmt::format(
        R"(  const {0}* const mask{1} = static_cast<const {0}*>(masks.data[{1}]) + (direct ? i64(key) * a.mask[{1}].keys.stride[0] : offset_by_call(a.mask[{1}].keys, key));
#pragma unroll
  for (int r = 0; r < rows; ++r) score[r] = {2};
)",
        device_type(form.masks[m]), m, change);
  }
  return text + "}\n";
}

std::string give_function(const AttentionForm& form) {
  const std::string begin = R"(
template <int V>
__device__ __forceinline__ void give(Result* to, const f32 (&y)[V]) {
)";
  if (!form.steps)
    return begin + R"(  alignas(16) Element x[V];
#pragma unroll
  for (int v = 0; v < V; ++v) x[v] = Narrow<Element>::from(y[v]);
  store(to, x);
}
)";
  const ScalarProgram& program = form.steps->program;
  const auto rounded = rounded_steps(program, program.outputs.at(0));
  const auto number = unrounded_float8(program, 0);
  const bool is_approximate = rounded || number;
  const std::string statements = scalar_statements(
      program, [](int32_t) { return std::string("x"); }, "    ", is_approximate ? Accuracy::of_halves : Accuracy::full);
  return begin + fmt::format(R"(  {} step[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {{
    const Element x = Narrow<Element>::from(y[v]);
{}    step[v] = {};
  }}
  {};
}}
)",
                             is_approximate ? "f32" : "alignas(16) Result", statements,
                             rounded  ? fmt::format("v{}", rounded->value)
                             : number ? fmt::format("v{}", *number)
                                      : scalar_result(program, 0, form.steps->dtype),
                             rounded  ? fmt::format("store_bytes(to, step, {})", rounded->zero)
                             : number ? "store_float8(to, step)"
                                      : "store(to, step)");
}

std::string kernel(const AttentionForm& form, const AttentionTile& tile, const std::string& function) {
  std::string parameters, masks;
  for (size_t m = 0; m < form.masks.size(); ++m) {
    parameters += fmt::format(", const void* mask{}", m);
    masks += fmt::format("{}mask{}", m > 0 ? ", " : "", m);
  }
  return fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) {}(const __grid_constant__ Attention a, const Element* query, const Element* key, const Element* value, Result* result, f32* partial{}) {{
  take_turn();
  const MaskPointers masks = {{{{{}}}}};
  {}(a, query, key, value, masks, result, partial);
}}
)",
                     tile.threads, tile.kernel, parameters, masks.empty() ? "nullptr" : masks, function);
}

AttentionTile matrix_tile(const AttentionForm& form, const char* name, int warps_q, int warps_k, int warp_keys) {
  const int head = round_up(form.head_size, 16), value = round_up(form.value_size, 16);
  AttentionTile tile{name, 16 * warps_q, warp_keys * warps_k, static_cast<unsigned>(32 * warps_q * warps_k)};
  const int apart = form.by_warpgroups && warps_k == 1 ? 0 : 8;  // see device/attention_matrix.cuh
  const auto tiles_of = [&](int stages) {
    return 2 * (tile.queries * (head + apart) + stages * tile.keys * (head + apart + value + apart));
  };
  const int sums = 4 * tile.queries * (warps_k * (value + 4) + warps_k + 2);
  tile.shared_bytes = static_cast<unsigned>(std::max(tiles_of(2), sums));
  tile.shared_bytes_of_one = static_cast<unsigned>(std::max(tiles_of(1), sums));
  return tile;
}

AttentionTile plain_tile(const AttentionForm& form, const char* name, int thread_queries, int thread_keys) {
  const int head = round_up(form.head_size, 4), value = round_up(form.value_size, 16);
  const int head_pitch = head / 4 % 2 == 0 ? head + 4 : head;
  AttentionTile tile{name, 16 * thread_queries, 16 * thread_keys, 256};
  tile.shared_bytes = static_cast<unsigned>(
      4 * ((tile.queries + tile.keys) * head_pitch + tile.keys * (value + 4) + tile.queries * (tile.keys + 4)));
  tile.shared_bytes_of_one = tile.shared_bytes;
  return tile;
}

}  // namespace

bool has_attention_text(const ops::Attention& op) {
  constexpr int64_t most_anywhere = 128;  // 64 KiB hold the tiles of larger heads no more
  return op.size <= most_anywhere && op.value_size <= most_anywhere && op.masked.size() <= most_attention_masks &&
         op.outer.size() <= most_axes && op.queries.size() <= most_axes && op.keys.size() <= most_axes;
}

bool can_go_by_warpgroups(int head_size, int value_size) {
  const auto fits = [](int size) { return round_up(size, 16) == 64 || round_up(size, 16) == 128; };
  return fits(head_size) && fits(value_size);
}

AttentionTiles attention_tiles(const AttentionForm& form) {
  const int keys = keys_of(form).wide, narrow_keys = keys_of(form).narrow;
  if (form.matrix_instructions)
    return {matrix_tile(form, "attention_wide", 4, 1, keys), matrix_tile(form, "attention_narrow", 1, 4, narrow_keys),
            form.by_warpgroups ? std::optional(matrix_tile(form, "attention_brief", 4, 1, keys / 2)) : std::nullopt};
  return {plain_tile(form, "attention_wide", 4, keys), plain_tile(form, "attention_narrow", 1, narrow_keys)};
}

std::string attention_text(const AttentionForm& form) {
  const AttentionTiles tiles = attention_tiles(form);
  const Keys keys = keys_of(form);
  std::string text = device_text({device::collective_cuh, device::running_sum_cuh, device::axes_parameters_h,
                                  device::axes_cuh, device::attention_parameters_h}) +
                     definitions(form) + std::string(device::attention_cuh) + mask_function(form) +
                     mask_pair_functions(form) + give_function(form);
  if (form.matrix_instructions) {
    text += fmt::format(R"(
__device__ __forceinline__ void multiply(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {{ mma_{0}(d, a, b); }}
__device__ __forceinline__ u32 pack(f32 low, f32 high) {{ return f32_to_{0}_pair(low, high); }}
)",
                        to_string(form.dtype)) +
            std::string(device::attention_products_cuh) + std::string(device::attention_matrix_cuh);
    if (form.by_warpgroups)
      text += fmt::format(R"(
template <int blocks>
__device__ __forceinline__ void multiply_group(f32 (&d)[blocks][4], u64 a, u64 b, bool adds) {{ wgmma_{0}<false>(d, a, b, adds); }}
template <int blocks>
__device__ __forceinline__ void multiply_held(f32 (&d)[blocks][4], const u32 (&a)[4], u64 b, bool adds) {{ wgmma_held_{0}(d, a, b, adds); }}
)",
                          to_string(form.dtype)) +
              std::string(device::attention_warpgroup_cuh);
    const char* products = form.by_warpgroups ? "WarpgroupProducts" : "WarpProducts";
    text += kernel(form, tiles.wide, fmt::format("attend<{}, 4, 1, {}>", products, keys.wide)) +
            kernel(form, tiles.narrow, fmt::format("attend<WarpProducts, 1, 4, {}>", keys.narrow));
    if (tiles.brief) text += kernel(form, *tiles.brief, fmt::format("attend<{}, 4, 1, {}>", products, keys.wide / 2));
  } else {
    text += std::string(device::attention_plain_cuh) +
            kernel(form, tiles.wide, fmt::format("attend<4, {}>", keys.wide)) +
            kernel(form, tiles.narrow, fmt::format("attend<1, {}>", keys.narrow));
  }
  return text + fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) merge(const __grid_constant__ Attention a, u32 splits, const f32* partial, Result* result) {{
  take_turn();
  merge_splits(a, splits, partial, result);
}}
)",
                            attention_merge_threads);
}

}  // namespace camshaft::cuda

#include "backends/cuda/libraries/dnn_attention_shape.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "ir/ops/broadcast.h"

namespace camshaft::cuda {

namespace {

using Access = DnnAttentionShape::Access;

constexpr int64_t chunk = 8;            // elements in 16 bytes
constexpr int64_t most_blocks = 65535;  // along the second and third axis of a grid

Dims values(const Shape& shape, const SymbolBindings& symbols) {
  Dims made;
  for (const Dim& d : shape) made.push_back(d.evaluate(symbols));
  return made;
}

Dims part(const Dims& access, size_t first, size_t count) {
  const auto begin = access.begin() + static_cast<int64_t>(first);
  return {begin, begin + static_cast<int64_t>(count)};
}

// The outer axes as batch and heads, of which `shared` in a row have one head of the second and third operand, the keys
// and values: their strides are of one such head, and the others' of one of their own.
struct Outer {
  int64_t batch = 1, heads = 1, shared = 1;
  std::vector<std::array<int64_t, 2>> strides;
};
std::optional<Outer> batch_and_heads(const ops::LoopNest& nest) {
  constexpr size_t key = 1, value = 2;
  const auto is_shared = [&](size_t axis) {
    return nest.strides[key][axis] == 0 && nest.strides[value][axis] == 0 && nest.sizes[axis] > 1;
  };
  Outer made;
  const auto set = [&](std::optional<size_t> batch, std::optional<size_t> heads) {
    if (batch) made.batch = nest.sizes[*batch];
    if (heads) made.heads = nest.sizes[*heads];
    for (const Dims& s : nest.strides) made.strides.push_back({batch ? s[*batch] : 0, heads ? s[*heads] : 0});
    if (heads && is_shared(*heads)) made.shared = made.heads;
  };
  switch (nest.sizes.size()) {
    case 1:
      is_shared(0) ? set(std::nullopt, 0) : set(0, std::nullopt);
      return made;
    case 2:
      is_shared(0) ? set(1, 0) : set(0, 1);
      return made;
    case 3: {
      if (!is_shared(2)) return std::nullopt;
      set(0, 1);
      made.shared = nest.sizes[2];
      made.heads *= made.shared;
      for (size_t i = 0; i < nest.strides.size(); ++i) {
        if (i == key || i == value) continue;
        const Dims& s = nest.strides[i];
        if (s[1] != s[2] * made.shared) return std::nullopt;
        made.strides[i][1] = s[2];
      }
      return made;
    }
    default:
      return std::nullopt;
  }
}

// Strides of axes that have no second element are larger than what there is of the others.
void fill_unit_strides(Access& access) {
  int64_t extent = access.dims.back();
  for (size_t i = 0; i < access.dims.size(); ++i)
    if (access.dims[i] > 1) extent = std::max(extent, access.dims[i] * access.strides[i]);
  for (size_t i = 0; i + 1 < access.dims.size(); ++i)
    if (access.dims[i] == 1) access.strides[i] = extent;
}

// Whether rows begin at whole pieces, and no two elements share a place.
bool has_whole_rows(const Access& access) {
  if (access.offset % chunk != 0 || access.dims.back() % chunk != 0 || access.strides.back() != 1) return false;
  for (size_t i = 0; i + 1 < access.dims.size(); ++i)
    if (access.strides[i] <= 0 || access.strides[i] % chunk != 0) return false;
  return true;
}

}  // namespace

std::optional<DnnAttentionShape> dnn_attention_shape(const ops::Attention& op, const SymbolBindings& symbols) {
  const size_t o = op.outer.size(), q = op.queries.size(), k = op.keys.size();
  if (op.masked.size() > 1 || op.softcap != 0) return std::nullopt;
  const Dims outer_sizes = values(op.outer, symbols), query_sizes = values(op.queries, symbols),
             key_sizes = values(op.keys, symbols);
  for (const Dims* sizes : {&outer_sizes, &query_sizes, &key_sizes})
    if (std::any_of(sizes->begin(), sizes->end(), [](int64_t n) { return n < 1; })) return std::nullopt;
  const Dims query = values(op.query, symbols), key = values(op.key, symbols), value = values(op.value, symbols),
             result = values(op.result, symbols), mask = values(op.masks, symbols);
  const bool has_mask = !op.masked.empty();

  std::vector<Dims> outer_strides;
  for (const Dims* access : {&query, &key, &value, &result}) outer_strides.push_back(part(*access, 1, o));
  std::vector<Dims> query_strides{part(query, 1 + o, q), part(result, 1 + o, q)};
  std::vector<Dims> key_strides{part(key, 1 + o, k), part(value, 1 + o, k)};
  if (has_mask) {
    outer_strides.push_back(part(mask, 1, o));
    query_strides.push_back(part(mask, 1 + o, q));
    key_strides.push_back(part(mask, 1 + o + q, k));
  }
  const auto outer = batch_and_heads(ops::collapse(outer_sizes, outer_strides));
  const ops::LoopNest queries = ops::collapse(query_sizes, query_strides), keys = ops::collapse(key_sizes, key_strides);
  if (!outer || queries.sizes.size() != 1 || keys.sizes.size() != 1) return std::nullopt;
  if (outer->batch > most_blocks || outer->heads > most_blocks) return std::nullopt;

  const auto access = [&](const Dims& fields, size_t operand, int64_t heads, const ops::LoopNest& rows,
                          size_t row_operand, int64_t columns) {
    const auto& s = outer->strides[operand];
    Access made{fields[0],
                {outer->batch, heads, rows.sizes[0], columns},
                {s[0], s[1], rows.strides[row_operand][0], fields.back()}};
    fill_unit_strides(made);
    return made;
  };
  const int64_t key_heads = outer->heads / outer->shared;
  DnnAttentionShape made{access(query, 0, outer->heads, queries, 0, op.size),
                         access(key, 1, key_heads, keys, 0, op.size),
                         access(value, 2, key_heads, keys, 1, op.value_size),
                         access(result, 3, outer->heads, queries, 1, op.value_size), std::nullopt};
  for (const Access* a : {&made.query, &made.key, &made.value, &made.result})
    if (!has_whole_rows(*a)) return std::nullopt;
  if (!has_mask) return made;
  const auto& s = outer->strides[4];
  const int64_t column = keys.strides[2][0];
  if (column != 1 && keys.sizes[0] > 1) return std::nullopt;
  Access m{
      mask[0], {outer->batch, outer->heads, queries.sizes[0], keys.sizes[0]}, {s[0], s[1], queries.strides[2][0], 1}};
  for (size_t i = 0; i < 3; ++i)
    if (m.strides[i] == 0) m.dims[i] = 1;
  fill_unit_strides(m);
  if (std::any_of(m.strides.begin(), m.strides.end(), [](int64_t stride) { return stride < 0; })) return std::nullopt;
  made.mask = std::move(m);
  return made;
}

}  // namespace camshaft::cuda

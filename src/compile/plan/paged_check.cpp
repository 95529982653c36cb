#include "compile/plan/paged_check.h"

#include "compile/plan/shape_check.h"

namespace camshaft {

void check_paged_store(const KernelShapes& shapes) {
  const Dims &cache = shapes.inputs[0].dims, &rows = shapes.inputs[1].dims;
  for (size_t d = 1; d < rows.size(); ++d) require_equal(rows[d], cache[d + 1], "an axis of the rows of a cache");
  require_equal(shapes.inputs[2].dims[0], rows[0], "the number of slots of a cache");
}

void check_paged_update(const ops::PagedUpdate& op, const KernelShapes& shapes) {
  using Op = ops::PagedUpdate;
  const auto dims = [&](size_t i) -> const Dims& { return shapes.inputs[i].dims; };
  const Dims &keys = dims(Op::in_keys), &values = dims(Op::in_values);
  const int64_t tokens = dims(Op::in_query)[0];
  for (size_t d = 0; d < 3; ++d) require_equal(values[d], keys[d], "an axis of the caches of an update");
  require_equal(dims(Op::in_query)[1], op.heads * keys[3], "the width of the query of an update of caches");
  require_equal(dims(Op::in_key)[1], keys[2] * keys[3], "the width of the keys of an update of caches");
  require_equal(dims(Op::in_value)[1], values[2] * values[3], "the width of the values of an update of caches");
  for (const size_t i : {Op::in_cosine, Op::in_sine})
    require_equal(dims(i)[1], op.rotated / 2, "the angles of an update of caches");
  for (const size_t i : {Op::in_key, Op::in_value, Op::in_cosine, Op::in_sine, Op::in_slots})
    require_equal(dims(i)[0], tokens, "the tokens of an update of caches");
  if (op.rotated > keys[3])
    throw Error(ErrorCode::invalid_argument, "an update of caches cannot rotate more elements than a head has");
}

void check_paged_quantize(const KernelShapes& shapes) {
  using Op = ops::PagedQuantize;
  const Dims &cache = shapes.inputs[Op::in_cache].dims, &scales = shapes.inputs[Op::in_scales].dims;
  const Dims& rows = shapes.inputs[Op::in_rows].dims;
  for (size_t d = 0; d < 3; ++d) require_equal(scales[d], cache[d], "an axis of the scales of a cache");
  for (size_t d = 1; d < 3; ++d) require_equal(rows[d], cache[d + 1], "an axis of the rows of a cache");
  require_equal(shapes.inputs[Op::in_slots].dims[0], rows[0], "the number of slots of a cache");
}

void check_paged_attention(const ops::PagedAttention& op, const KernelShapes& shapes) {
  using Op = ops::PagedAttention;
  const Dims &query = shapes.inputs[Op::in_query].dims, &keys = shapes.inputs[Op::in_keys].dims;
  const Dims &values = shapes.inputs[Op::in_values].dims, &table = shapes.inputs[Op::in_table].dims;
  for (size_t d = 0; d < 3; ++d) require_equal(values[d], keys[d], "an axis of the caches of paged_attention");
  if (keys[2] < 1 || op.heads % keys[2] != 0)
    throw Error(ErrorCode::invalid_argument, "the heads of paged_attention cannot share those of the keys");
  require_equal(query[1], op.heads * keys[3], "the width of the query of paged_attention");
  require_equal(shapes.inputs[Op::in_past].dims[0], table[0], "the number of sequences of paged_attention");
  require_equal(shapes.inputs[Op::in_starts].dims[0], table[0] + 1, "the number of starts of paged_attention");
  if (has_sinks(shapes)) require_equal(shapes.inputs[Op::in_sink].dims[0], op.heads, "the number of sinks");
  if (has_scales(shapes, Op::in_relative_bias)) {
    const Dims& bias = shapes.inputs[Op::in_relative_bias].dims;
    require_equal(bias[0], op.heads, "the heads of a relative bias");
    if (bias[1] % 2 == 0)
      throw Error(ErrorCode::invalid_argument, "the columns of a relative bias must be odd in number");
  }
  for (const size_t i : {Op::in_key_scales, Op::in_value_scales})
    for (size_t d = 0; has_scales(shapes, i) && d < 3; ++d)
      require_equal(shapes.inputs[i].dims[d], keys[d], "an axis of the scales of paged_attention");
}

bool has_sinks(const KernelShapes& shapes) {
  return has_scales(shapes, ops::PagedAttention::in_sink);
}

bool has_scales(const KernelShapes& shapes, size_t i) {
  return shapes.inputs.size() > i && !shapes.inputs[i].dims.empty();
}

}  // namespace camshaft

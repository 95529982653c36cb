#include "compile/region/move_view.h"

#include <fmt/format.h>

#include "compile/plan/shape_check.h"

namespace camshaft {

Dims row_major(const OperandShape& operand) {
  Dims strides(operand.dims.size());
  int64_t stride = 1;
  for (size_t d = operand.dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride = d + 1 == operand.dims.size() ? operand.pitch() : stride * operand.dims[d];
  }
  return strides;
}

int64_t width_of(const OperandShape& operand) {
  return bit_width(operand.dtype) / 8;
}

bool is_movable(DType dtype) {
  return !holds_objects(dtype) && bit_width(dtype) >= 8 && bit_width(dtype) <= 64;
}

StridedMove transpose_move(const ops::Transpose& op, const KernelShapes& shapes) {
  StridedMove move{shapes.outputs[0].dims, {}, row_major(shapes.outputs[0]), 0};
  const Dims strides = row_major(shapes.inputs[0]);
  for (const int64_t p : op.permutation) move.in.push_back(strides[static_cast<size_t>(p)]);
  return move;
}

StridedMove expand_move(const KernelShapes& shapes) {
  const Dims &x = shapes.inputs[0].dims, &y = shapes.outputs[0].dims;
  require_broadcast(x, y);
  const Dims strides = row_major(shapes.inputs[0]);
  StridedMove move{y, Dims(y.size(), 0), row_major(shapes.outputs[0]), 0};
  for (size_t i = 0; i < x.size(); ++i)
    if (x[x.size() - 1 - i] != 1) move.in[y.size() - 1 - i] = strides[x.size() - 1 - i];
  return move;
}

StridedMove slice_move(const ops::Slice& op, const KernelShapes& shapes) {
  const Dims& x = shapes.inputs[0].dims;
  const Dims strides = row_major(shapes.inputs[0]);
  StridedMove move{shapes.outputs[0].dims, strides, row_major(shapes.outputs[0]), 0};
  for (size_t i = 0; i < op.axes.size(); ++i) {
    const auto axis = static_cast<size_t>(op.axes[i]);
    const int64_t from = op.starts[i].evaluate(*shapes.symbols), count = move.dims[axis];
    int64_t to = 0;
    const bool fits = !__builtin_mul_overflow(count - 1, op.steps[i], &to) && !__builtin_add_overflow(from, to, &to);
    if (count > 0 && (!fits || from < 0 || from >= x[axis] || to < 0 || to >= x[axis]))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("a slice from {} to {} leaves axis {} of {}", from, to, axis, to_string(x)));
    if (count > 0) move.start += from * strides[axis];
    move.in[axis] = count > 1 ? strides[axis] * op.steps[i] : 0;
  }
  return move;
}

std::vector<StridedMove> concat_moves(const ops::Concat& op, const KernelShapes& shapes) {
  const auto axis = static_cast<size_t>(op.axis);
  const Dims out = row_major(shapes.outputs[0]);
  std::vector<StridedMove> parts;
  int64_t joined = 0;
  for (const OperandShape& part : shapes.inputs) {
    for (size_t d = 0; d < part.dims.size(); ++d)
      if (d != axis) require_equal(part.dims[d], shapes.outputs[0].dims[d], "an axis of a concatenated tensor");
    parts.push_back({part.dims, row_major(part), out, joined * out[axis]});
    joined += part.dims[axis];
  }
  require_equal(joined, shapes.outputs[0].dims[axis], "the size of a concatenation");
  return parts;
}

std::optional<StridedMove> IndexedMove::strided() const {
  StridedMove move{{}, Dims(map.axes.size(), 0), out, 0};
  for (const auto& axis : map.axes) move.dims.push_back(axis.size);
  if (map.is_empty) return move;
  for (size_t d = 0; d < in.size(); ++d) {
    if (map.sources[d].leaves) return std::nullopt;
    move.start += map.sources[d].start * in[d];
  }
  for (size_t a = 0; a < map.axes.size(); ++a)
    if (map.axes[a].along >= 0) move.in[a] = map.axes[a].step * in[static_cast<size_t>(map.axes[a].along)];
  return move;
}

IndexedMove indexed_move(const ops::IndexMap& op, const KernelShapes& shapes) {
  const OperandShape &x = shapes.inputs[0], &y = shapes.outputs[0];
  check_fits_memory(y.dtype, y.dims);  // kernels prepare tables of axes
  return {bind_index_map(op, x.dims, y.dims, *shapes.symbols), row_major(x), row_major(y)};
}

}  // namespace camshaft

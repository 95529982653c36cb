#include "ir/ops/recurrent.h"

#include "ir/ops/recurrent_activation.h"
#include "ir/ops/recurrent_inputs.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

void check_fields(const Recurrent& op) {
  const size_t count = activations_per_direction(op.cell) * (op.direction == Direction::bidirectional ? 2 : 1);
  if (op.activations.size() != count || op.alphas.size() != count || op.betas.size() != count)
    fail_rule("{} activations, {} alphas and {} betas are given, {} are needed", op.activations.size(),
              op.alphas.size(), op.betas.size(), count);
  for (const std::string& activation : op.activations)
    if (!find_recurrent_activation(activation)) fail_rule("the activation '{}' is unknown", activation);
  if (!(op.clip >= 0)) fail_rule("the clip threshold is {}, it must not be negative", op.clip);
}

size_t activations_per_direction(CellKind cell) {
  return cell == CellKind::rnn ? 1 : cell == CellKind::gru ? 2 : 3;
}

std::vector<Inferred> Recurrent::infer(const InferContext& context) const {
  check_fields(*this);
  const DType dtype = context.dtype(in_x);
  if (!is_floating(dtype)) fail_rule("a recurrent layer takes floating-point numbers, got {}", to_string(dtype));
  if (context.rank(in_x) != 3 || context.rank(in_recurrence) != 3)
    fail_rule("the input and the recurrence weights must have 3 axes, they have {} and {}", context.rank(in_x),
              context.rank(in_recurrence));
  const Shape& x = context.shape(in_x);
  const Dim hidden = context.shape(in_recurrence)[2];
  const auto wanted = wanted_shapes<Dim>(*this, x[0], x[1], x[2], hidden);
  for (const auto& [i, shape] : wanted) {
    if (i > in_recurrence && !context.has(i)) continue;
    if (i >= in_c && cell != CellKind::lstm) fail_rule("only an LSTM takes {}", recurrent_input_names[i]);
    const TensorType& type = context.type(i);
    if (type.dtype != (i == in_lengths ? DType::i32 : dtype))
      fail_rule("{} must be {}, not {}", recurrent_input_names[i], to_string(i == in_lengths ? DType::i32 : dtype),
                to_string(type.dtype));
    if (type.shape.size() != shape.size())
      fail_rule("{} must have {} axes, not {}", recurrent_input_names[i], shape.size(), type.shape.size());
    for (size_t axis = 0; axis < shape.size(); ++axis)
      same_size(shape[axis], type.shape[axis], recurrent_input_names[i], axis);
  }
  const Dim d = direction == Direction::bidirectional ? 2 : 1;
  std::vector<Inferred> out{{{dtype, {x[0], d, x[1], hidden}}}, {{dtype, {d, x[1], hidden}}}};
  if (cell == CellKind::lstm) out.push_back(out[1]);
  return out;
}

}  // namespace camshaft::ops

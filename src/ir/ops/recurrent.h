// Recurrent layers: simple RNN, GRU and LSTM.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

enum class CellKind : uint8_t { rnn, gru, lstm };
enum class Direction : uint8_t { forward, reverse, bidirectional };

/// One layer as ONNX defines it, time first: (x[time, batch, in], weights[d, g·hidden, in], recurrence[d, g·hidden,
/// hidden], biases[d, 2·g·hidden]?, lengths[batch]: i32?, initial_h[d, batch, hidden]?, initial_c[d, batch, hidden]?,
/// peepholes[d, 3·hidden]?) -> y[time, d, batch, hidden], h[d, batch, hidden], c[d, batch, hidden]; d is 2 when
/// bidirectional, g the number of gates: 1, 3 (update, reset, hidden) or 4 (input, output, forget, cell). Only the LSTM
/// has initial_c, peepholes and c.
///
/// Steps beyond a sequence's length leave y zero, and the final state is that of the last step inside. The state is
/// kept in double; results round once.
struct Recurrent {
  static constexpr std::string_view name = "recurrent";
  static constexpr Traits traits{.kind = OpKind::contraction,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  enum Input : size_t { in_x, in_weights, in_recurrence, in_biases, in_lengths, in_h, in_c, in_peepholes };
  CellKind cell = CellKind::lstm;
  Direction direction = Direction::forward;
  /// For each direction 1, 2 or 3 functions (RNN: f; GRU: f, g; LSTM: f, g, h), in lower case; see
  /// recurrent_activation.h.
  std::vector<std::string> activations;
  std::vector<double> alphas, betas;  ///< one for each activation, used or not
  double clip = 0;                    ///< bounds what goes into the activations; 0: no bound
  bool input_forget = false;          ///< LSTM: the forget gate is 1 - the input gate
  bool linear_before_reset = false;   ///< GRU: the reset gate applies to the product, not to the state
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("cell", self.cell);
    visit("direction", self.direction);
    visit("activations", self.activations);
    visit("alphas", self.alphas);
    visit("betas", self.betas);
    visit("clip", self.clip);
    visit("input_forget", self.input_forget);
    visit("linear_before_reset", self.linear_before_reset);
  }
  bool operator==(const Recurrent&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
};

/// How many activation functions a direction of the cell has.
size_t activations_per_direction(CellKind cell);

/// Throws Error(invalid_argument) for activations that do not fit the cell, or are unknown, and for a negative clip.
void check_fields(const Recurrent& op);

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::CellKind> {
  static constexpr std::string_view values[] = {"rnn", "gru", "lstm"};
};
template <>
struct EnumNames<ops::Direction> {
  static constexpr std::string_view values[] = {"forward", "reverse", "bidirectional"};
};
}  // namespace camshaft

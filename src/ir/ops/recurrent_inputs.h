// What the inputs of a recurrent layer must be like: for its shape rule, in dims, and for its evaluation, in numbers.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/ops/recurrent.h"

namespace camshaft::ops {

/// The inputs of Recurrent in messages, by Recurrent::Input.
inline constexpr const char* recurrent_input_names[] = {"the input",     "the weights",   "the recurrence weights",
                                                        "the biases",    "sequence_lens", "the initial h",
                                                        "the initial c", "the peepholes"};

inline int64_t gate_count(CellKind cell) {
  return cell == CellKind::rnn ? 1 : cell == CellKind::gru ? 3 : 4;
}

/// The shape that each input must have, in sizes that are dims or numbers.
template <class Size>
std::vector<std::pair<size_t, std::vector<Size>>> wanted_shapes(const Recurrent& op, const Size& time,
                                                                const Size& batch, const Size& in, const Size& hidden) {
  const Size d = op.direction == Direction::bidirectional ? 2 : 1, gates = gate_count(op.cell);
  using enum Recurrent::Input;
  return {{in_x, {time, batch, in}},
          {in_weights, {d, gates * hidden, in}},
          {in_recurrence, {d, gates * hidden, hidden}},
          {in_biases, {d, Size(2) * gates * hidden}},
          {in_lengths, {batch}},
          {in_h, {d, batch, hidden}},
          {in_c, {d, batch, hidden}},
          {in_peepholes, {d, Size(3) * hidden}}};
}

}  // namespace camshaft::ops

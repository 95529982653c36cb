// Recurrent layers in f32: simple RNN, GRU and LSTM, all steps of one layer.
//
// The input's part of all gates is one matrix product over many steps (gemm.h). What remains of a step is a product of
// few rows, the state times the recurrence weights, which is bound by how fast the weights stream from cache: they are
// packed in blocks of one vector of units with all gates of these side by side, so that a block's sums stay in
// registers and its cells are updated at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace camshaft {
class ThreadPool;
}

namespace camshaft::cpu {

/// gru resets the state before the product, gru_linear the product.
enum class RecurrentCell : uint8_t { rnn, gru, gru_linear, lstm };
enum class RecurrentFunction : uint8_t {
  affine,
  elu,
  hard_sigmoid,
  leaky_relu,
  relu,
  scaled_tanh,
  sigmoid,
  softplus,
  softsign,
  tanh,
  thresholded_relu,
};

struct RecurrentActivation {
  RecurrentFunction function = RecurrentFunction::tanh;
  float alpha = 0, beta = 0;
};

/// Where gates lie, in the rows of projected inputs and in packed recurrence weights. Units are cut into blocks of
/// `lanes`, the last one padded. A cell has one or two phases, products that wait for each other; a phase is
/// [block][gate of the phase][lane] in a row of the projected input, and [block][k][gate][lane] in the weights. Plain
/// data, as PackedLayout is.
struct RecurrentLayout {
  RecurrentCell cell = RecurrentCell::lstm;
  int64_t hidden = 0;
  int64_t lanes = 0;

  int64_t gates() const { return cell == RecurrentCell::rnn ? 1 : cell == RecurrentCell::lstm ? 4 : 3; }
  int phases() const { return cell == RecurrentCell::gru ? 2 : 1; }
  int64_t first_gate(int phase) const { return phase == 0 ? 0 : 2; }
  int64_t phase_gates(int phase) const { return cell == RecurrentCell::gru ? (phase == 0 ? 2 : 1) : gates(); }
  int64_t blocks() const { return (hidden + lanes - 1) / lanes; }
  /// Units with padding.
  int64_t padded() const { return blocks() * lanes; }
  /// Floats of a row of projected inputs.
  int64_t columns() const { return gates() * padded(); }
  /// The unpadded row of ONNX's weights, gate * hidden + unit, that is in this column of the projected input; -1 for
  /// padding.
  int64_t row_of_column(int64_t column) const;
  /// Floats of the packed recurrence weights of one direction.
  int64_t packed_floats() const { return columns() * hidden; }
};

/// The layout for this machine's vectors.
RecurrentLayout recurrent_layout(RecurrentCell cell, int64_t hidden);
/// From [gates * hidden, hidden] as ONNX has them, and back. Works for the layout of any machine.
void pack_recurrence(const RecurrentLayout& layout, const float* weights, float* packed);
void unpack_recurrence(const RecurrentLayout& layout, const float* packed, float* weights);

/// One direction of a layer. Pointers marked "or none" may be null.
struct RecurrentDirection {
  bool reverse = false;
  RecurrentActivation activations[3];           ///< RNN: f; GRU: f, g; LSTM: f, g, h
  const float* recurrence = nullptr;            ///< pack_recurrence
  const float* reset_bias = nullptr;            ///< gru_linear: [padded], what is added to the hidden gate's product
  const float* peepholes = nullptr;             ///< LSTM: [3 * hidden] of input, output and forget gate, or none
  const float* initial_h = nullptr;             ///< [batch, hidden], or none: zeros
  const float* initial_c = nullptr;             ///< LSTM: [batch, hidden], or none: zeros
  const float* projected = nullptr;             ///< [steps of a stretch, batch, columns], biases included
  float* y = nullptr;                           ///< step t of row b at y + t * y_step + b * hidden
  float* c = nullptr;                           ///< LSTM: [batch, padded], the state; written by the first stretch
  float *update = nullptr, *reset_h = nullptr;  ///< gru: scratch, [batch, padded] each
};

struct RecurrentSteps {
  RecurrentLayout layout;
  int64_t time = 0, batch = 0;
  int64_t y_step = 0;
  float clip = 0;  ///< 0: none
  bool input_forget = false;
  const int32_t* lengths = nullptr;  ///< [batch], each in [0, time], or none
  const float* zeros = nullptr;      ///< [hidden]
  std::span<const RecurrentDirection> directions;
};

/// Runs steps [done, done + steps) of every forward direction, and steps [time - done - steps, time - done) of every
/// reverse one, last first. Stretches must follow each other from done = 0. Steps beyond a row's length leave y zero.
void run_recurrent(const RecurrentSteps& args, int64_t done, int64_t steps, ThreadPool& pool);

/// The state after the last step of each row, [batch, hidden]: zeros for rows without steps.
void final_h(const RecurrentSteps& args, const RecurrentDirection& direction, float* h);
void final_c(const RecurrentSteps& args, const RecurrentDirection& direction, float* c);

}  // namespace camshaft::cpu

// A scalar program lowered to vector loops: executes it on one row segment. The building block of the pointwise
// executor (pointwise.h), and by itself the epilogue of a matmul or convolution tile.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/pointwise/tile_kernels.h"
#include "base/dtype.h"
#include "compile/region/scalar_program.h"

namespace camshaft::cpu {

/// How an input lies along the segment.
enum class RowForm : uint8_t {
  vector,   ///< consecutive elements
  uniform,  ///< one element for the whole segment
};

/// Executes a scalar program on segments of up to any length, in tiles that stay in the L1 cache: one loop an
/// instruction and tile, the intermediates in buffers that are reused as soon as their value is dead.
///
/// Element types: f32, f64, f16 and bf16 (computed in f32, rounded only where stored or cast), all integers of 8 bits
/// and more, bool. An input's type is that of the program's load of it; an output's that of its instruction. Common
/// groups of instructions run as one loop (FusedFunction). Immutable after construction: share it between threads.
class TileProgram {
 public:
  TileProgram() = default;

  /// `forms`: one per input of the program. Throws Error(unsupported) for an element type or a function without a loop
  /// (e.g. 4-bit types, trigonometry on integers), or a program with too many intermediates at a time (thousands).
  TileProgram(const ScalarProgram& program, std::vector<RowForm> forms);

  /// Runs the program on elements 0 … count-1. `inputs[k]` points to element 0 of input k (or its one element),
  /// `outputs[k]` to that of output k; outputs are consecutive elements. An output may be the very same memory as a
  /// vector input of the same element width (in place). Allocates nothing; uses at most 33 KB of stack (1 MB for
  /// programs with hundreds of intermediates).
  void run_row(int64_t count, const void* const* inputs, void* const* outputs) const;

  /// Whether a row of so many elements is one loop, with nothing written down for it.
  bool is_one_loop(int64_t count) const;
  /// One row of `count` elements or more, of which each is_one_loop(): as run_row() for each, between which every
  /// pointer goes on by its step in bytes. `steps`: of the inputs, then of the outputs; not read for one row.
  void run_loops(int64_t count, int64_t rows, const void* const* inputs, void* const* outputs,
                 const int64_t* steps) const;

  int inputs() const { return inputs_; }
  int outputs() const { return static_cast<int>(output_types_.size()); }
  /// The type an input is loaded as; f32 for an input that the program never loads.
  DType input_type(int input) const { return input_types_[input]; }
  DType output_type(int output) const { return output_types_[output]; }
  /// Elements a tile.
  int64_t tile() const { return tile_; }
  /// Estimated work of one element, in additions of f32.
  int64_t cost() const { return cost_; }
  /// Loops a tile; less than the program's instructions where some were fused.
  int steps() const { return static_cast<int>(uniform_steps_.size() + steps_.size()); }

 private:
  // A slot is a pointer: inputs first, then outputs, constants, uniform intermediates, tile buffers.
  struct Step {
    TileKernel kernel;
    int operands;
    int32_t in[most_operands];
    int32_t out;
    unsigned uniform;
  };
  struct Builder;

  int64_t first_tile(int64_t count, const void* anchor) const;
  bool fetches_ahead(int64_t count) const;
  void fetch_next_tile(void* const* slots, int64_t n) const;
  void run_in(std::byte* scratch, int64_t count, const void* const* inputs, void* const* outputs) const;

  int inputs_ = 0;
  std::vector<RowForm> forms_;
  std::vector<DType> input_types_, output_types_;
  std::vector<int64_t> input_widths_, output_widths_;  // bytes to advance an element; 0 for uniform inputs
  std::vector<uint64_t> constants_;                    // each the bytes of one element
  std::vector<Step> uniform_steps_, steps_;
  int uniform_slots_ = 0, buffers_ = 0;
  int64_t buffer_bytes_ = 0, tile_ = 1024, cost_ = 0;
  int64_t anchor_ = 0, anchor_width_ = 0;  // slot and bytes of the widest operand, by which tiles are aligned
  size_t scratch_bytes_ = 0;
};

}  // namespace camshaft::cpu

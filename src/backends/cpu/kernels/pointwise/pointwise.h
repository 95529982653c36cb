// Pointwise regions: a scalar program over an iteration space, with broadcast and strided operands.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/move/strided.h"
#include "backends/cpu/kernels/pointwise/tile_program.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// How threads share a space of `rows` rows of `row` elements: whole rows where there are enough of them to share out
/// evenly, else rows cut at multiples of 16 elements.
struct PointwiseShares {
  int64_t rows, row;
  int threads;

  /// The threads that are worth waking for so much work (additions of f32).
  static int useful(int64_t work, int most);
  /// Where thread `thread`'s elements begin, and those of the thread before it end.
  int64_t begin(int thread) const;
};

/// A scalar program prepared for one iteration space. Built once a shape (allocates); run any number of times, from any
/// thread that has its own pool (allocates nothing).
///
///     // out[n, c] = max(x[n, c] + bias[c], 0)
///     Pointwise relu(program, {n, c}, {{c, 1}, {0, 1}});
///     relu.run(pool, inputs, outputs);
///
/// For the epilogue of a matmul tile (one row, every input consecutive or one element) use TileProgram::run_row.
class Pointwise {
 public:
  /// `dims`: the iteration space, any rank (0: one element); a dim may be 0. `input_strides[k][d]`: elements between
  /// neighbours of input k along dim d, 0 where it is broadcast, negative allowed. `output_strides`: likewise, never 0
  /// where the dim is above 1; empty: every output is dense, row-major. Throws Error(unsupported) as TileProgram does,
  /// or for more than 64 dims that cannot be merged; Error(internal) for lists of the wrong length.
  Pointwise(const ScalarProgram& program, const std::vector<int64_t>& dims,
            const std::vector<std::vector<int64_t>>& input_strides,
            const std::vector<std::vector<int64_t>>& output_strides = {});

  /// `inputs[k]`, `outputs[k]`: element (0, …, 0) of each. An output may be the very memory of an input with the same
  /// strides and element width; otherwise outputs overlap nothing.
  void run(ThreadPool& pool, const void* const* inputs, void* const* outputs) const;

  /// Elements begin … begin + count - 1 of the space, in row-major order, by the calling thread: for who goes on with
  /// them while they are in cache. Outputs are dense, and `outputs[k]` is where the first of these elements goes.
  void run_range(int64_t begin, int64_t count, const void* const* inputs, void* const* outputs) const;

  /// Estimated work of one element, in additions of f32.
  int64_t cost() const { return std::max<int64_t>(1, program_.cost() + (staged_ ? 4 : 0)); }

  /// Loops a tile after fusion, for inspection.
  int steps() const { return program_.steps(); }

 private:
  // How a tile's worth of an operand is reached.
  enum class Access : uint8_t { direct, uniform, staged };
  struct Cursor;

  bool can_stream(const void* const* inputs, void* const* outputs) const;
  void run_span(int64_t begin, int64_t end, const void* const* inputs, void* const* outputs, bool streams) const;
  void run_staged(int64_t begin, int64_t end, const void* const* inputs, void* const* outputs, bool streams) const;
  void walk_rows(int64_t row, int64_t past, const void* const* inputs, void* const* outputs) const;
  void walk_span(int64_t begin, int64_t end, const void* const* inputs, void* const* outputs, char* stage,
                 bool streams) const;
  void run_tiles(Cursor& cursor, int64_t begin, int64_t count) const;
  void find_repeats(int64_t staged_width);

  StridedSpace space_;  // operands: inputs, then outputs
  int inputs_ = 0, operands_ = 0;
  int64_t total_ = 0, rows_ = 0, row_ = 0;  // elements, rows, elements a row
  bool flat_ = false;                       // a row is the whole space
  bool staged_ = false;                     // some operand is staged
  bool one_loop_ = false;                   // rows are a loop each, and nothing is staged
  bool streams_ = false;                    // dense outputs are written past the caches
  int64_t tile_ = 0;
  TileProgram program_;
  std::vector<Access> access_;
  static constexpr uint8_t repeats_last_dim = 1, repeats_in_tiles = 2;
  std::vector<uint8_t> patterns_;       // staged inputs: the last dim over all others, the same in every tile
  std::vector<int64_t> widths_;         // bytes an element, per operand
  std::vector<int64_t> stage_offsets_;  // of staged operands and streamed outputs, into the staging area
};

}  // namespace camshaft::cpu

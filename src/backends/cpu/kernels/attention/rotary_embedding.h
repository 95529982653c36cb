// Rotary position embeddings of f32 rows, read through strides.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/move/strided.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// Where a pair's angles are in a row of a table: from its first to its second, and from pair to pair.
struct RotaryTable {
  int64_t second = 0, pair = 1;
  /// Of a table whose rows are named: elements a row, in which all angles of a row of x lie; the strides then count
  /// ids.
  int64_t row = 0;
  int64_t rows = 0;  ///< that it has: negative ids count from its end
};

/// A table as it lies, or, where there are `ids`, rows of it that these name.
struct RotaryRows {
  RotaryRows(const float* table, const int64_t* row_ids = nullptr) : first(table), ids(row_ids) {}
  const float* first;
  const int64_t* ids;
};

/// y[a] = x[a] cosine[a] - x[b] sine[a] and y[b] = x[b] cosine[b] + x[a] sine[b] for the pairs (a, b) of the first
/// `rotated` elements of each row; the others are copied. Pair i is 2i and 2i + 1 where they are `interleaved`, else i
/// and i + rotated/2.
struct Rotary {
  enum Operand : size_t { in_x, in_cosine, in_sine, out_y, operand_count };
  StridedSpace rows;  ///< with strides of all Operands
  int64_t width = 0, rotated = 0;
  bool interleaved = false;
  RotaryTable cosine, sine;

  /// Joins axes where it can, and orders them so that rows of the tables are read while they are in cache. Call it
  /// once, before run().
  void prepare();
  /// y must not overlap the operands; ids are those of rows.
  void run(ThreadPool& pool, const float* x, RotaryRows cosines, RotaryRows sines, float* y) const;

  /// Rows in the order in which they are computed, from these elements of the operands on. Of prepare().
  struct Part {
    StridedSpace rows;
    std::array<int64_t, operand_count> start{};
  };
  std::vector<Part> parts;
};

}  // namespace camshaft::cpu

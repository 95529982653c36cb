// One of two operands by a comparison of a row's number with the columns', or by a mask whose rows are runs: triangles,
// diagonals, lengths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// The columns of a row are numbered first, first + 1, …, so those that pass are neighbours: they are copied or filled
/// as runs, and nothing is compared for each. Trilu of 10^7 f32 took 2.6 ms beside a mask of its elements.
struct IntervalSelect {
  enum class Test : uint8_t { less, less_or_equal, equal };
  Test test = Test::less;
  bool column_first = false;     ///< test(column, row), not test(row, column)
  int64_t first = 0;             ///< of the columns' numbers; of a size that sums with `columns` fit
  int64_t columns = 0;           ///< in a row
  DType row_dtype = DType::i64;  ///< of the rows' numbers: i32 or i64
  /// Not empty: where the columns that pass begin and end in each row of a mask, instead of numbers and a test.
  std::vector<std::pair<int64_t, int64_t>> runs;
  std::vector<int64_t> dims;     ///< of the rows: all of the result's but the last
  std::vector<int64_t> strides;  ///< of the rows' numbers, or runs, along these
  int64_t width = 4;             ///< bytes an element

  /// Where the columns that pass begin and end, for a row with this number.
  std::pair<int64_t, int64_t> range(int64_t row) const;

  /// What is written where the test passes, and where it does not.
  struct Arm {
    const std::byte* data;
    bool is_element;  ///< one for all places; else as many as the result has, which may be the very same memory
  };
  /// `rows`: the rows' numbers; null where there are runs.
  void run(ThreadPool& pool, const void* rows, Arm passes, Arm fails, std::byte* out) const;

 private:
  int64_t number_at(const void* rows, int64_t place) const;
  bool fills_all(Arm passes, Arm fails) const;  // with what fails, before the few that pass are written
  void run_rows(int64_t begin, int64_t end, const void* rows, Arm passes, Arm fails, std::byte* out) const;
  void write(Arm arm, int64_t at, int64_t count, std::byte* out) const;
};

}  // namespace camshaft::cpu

#include "backends/cpu/kernels/pointwise/interval_select.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "backends/cpu/kernels/move/fill.h"
#include "base/pieces.h"

namespace camshaft::cpu {

namespace {

constexpr int64_t grain_bytes = 32 * 1024;

}  // namespace

std::pair<int64_t, int64_t> IntervalSelect::range(int64_t row) const {
  const int64_t at = std::clamp(row, first - 1, first + columns) - first;  // the column of this number, if it is there
  const int64_t here = std::max<int64_t>(at, 0), behind = std::min(at + 1, columns);
  if (test == Test::equal) return {here, at < 0 ? here : behind};
  const bool takes_equal = test == Test::less_or_equal;
  if (column_first) return {0, takes_equal ? behind : here};
  return {takes_equal ? here : behind, columns};
}

void IntervalSelect::write(Arm arm, int64_t at, int64_t count, std::byte* out) const {
  if (count <= 0) return;
  std::byte* to = out + at * width;
  if (arm.is_element) {
    fill_elements(width, arm.data, to, count);
  } else if (arm.data != out) {
    std::memcpy(to, arm.data + at * width, static_cast<size_t>(count * width));
  }
}

int64_t IntervalSelect::number_at(const void* rows, int64_t place) const {
  return row_dtype == DType::i32 ? static_cast<const int32_t*>(rows)[place] : static_cast<const int64_t*>(rows)[place];
}

bool IntervalSelect::fills_all(Arm passes, Arm fails) const {
  return runs.empty() && test == Test::equal && passes.is_element && fails.is_element;
}

void IntervalSelect::run_rows(int64_t begin, int64_t end, const void* rows, Arm passes, Arm fails,
                              std::byte* out) const {
  for (int64_t r = begin; r < end; ++r) {
    int64_t rest = r, place = 0;
    for (size_t d = dims.size(); d-- > 0; rest /= dims[d]) place += rest % dims[d] * strides[d];
    const auto [from, to] = runs.empty() ? range(number_at(rows, place)) : runs[static_cast<size_t>(place)];
    const int64_t start = r * columns;
    if (!fills_all(passes, fails)) {
      write(fails, start, from, out);
      write(fails, start + to, columns - to, out);
    }
    write(passes, start + from, to - from, out);
  }
}

void IntervalSelect::run(ThreadPool& pool, const void* rows, Arm passes, Arm fails, std::byte* out) const {
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  if (count == 0 || columns == 0) return;
  // A few elements in what is otherwise alike: as a whole it is written as fast as memory allows.
  if (fills_all(passes, fails)) {
    pool.parallel_for(count * columns, grain_bytes / width,
                      [&](int64_t begin, int64_t end) { write(fails, begin, end - begin, out); });
  }
  for_pieces(pool, count, grain_bytes / (columns * width) + 1,
             [&](int64_t begin, int64_t end) { run_rows(begin, end, rows, passes, fails, out); });
}

}  // namespace camshaft::cpu

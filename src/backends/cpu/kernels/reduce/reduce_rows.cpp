#include "backends/cpu/kernels/reduce/reduce_rows.h"

#include <algorithm>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/reduce_rows.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/reduce/row_reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

double row_product(const float* x, int64_t n) {
  double product = 1;
  for (int64_t i = 0; i < n; ++i) product *= x[i];
  return product;
}

double row(ReduceKind kind, const float* x, int64_t n) {
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::mean:
      return row_sum(x, n, 0, Plain());
    case ReduceKind::sum_square:
      return row_sum(x, n, 0, Squared());
    case ReduceKind::sum_abs:
      return row_sum(x, n, 0, Magnitude());
    case ReduceKind::max:
      return row_extreme<true, true>(x, n);
    case ReduceKind::min:
      return row_extreme<false, true>(x, n);
    case ReduceKind::prod:
      break;
  }
  return row_product(x, n);
}

// Rows that are added side by side, each into a sum of its own, in all columns: equal columns have equal sums, wherever
// they stand (a softmax of large numbers behind them magnifies the last bit).
constexpr int kSums = 4;

// V vectors of columns, whose sums stay in registers (in L1 they took three times as long).
// With kTail the last vector has `tail` columns.
template <int V, bool kTail, class Function>
HWY_INLINE void columns_of_block(const float* x, int64_t rows, int64_t stride, size_t tail, float* out,
                                 Function function) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mask = hn::FirstN(d, tail);
  hn::Vec<decltype(d)> sum[kSums][V];
#pragma GCC unroll 8
  for (int i = 0; i < kSums; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[i][v] = hn::Zero(d);
  }
  const auto add = [&](hn::Vec<decltype(d)>(&to)[V], const float* from) HWY_ATTR {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      to[v] = hn::Add(to[v], function(kTail ? masked_load(mask, d, from + v * lanes) : hn::LoadU(d, from + v * lanes)));
  };
  int64_t r = 0;
  for (; r + kSums <= rows; r += kSums) {
#pragma GCC unroll 8
    for (int i = 0; i < kSums; ++i) add(sum[i], x + (r + i) * stride);
  }
  for (; r < rows; ++r) add(sum[0], x + r * stride);
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
#pragma GCC unroll 8
    for (int i = 1; i < kSums; ++i) sum[0][v] = hn::Add(sum[0][v], sum[i][v]);
    hn::StoreU(sum[0][v], d, out + v * lanes);
  }
}

// Blocks of 256 rows are added in double.
template <class Function>
HWY_INLINE void column_sums(const float* x, int64_t rows, int64_t stride, int64_t columns, double* out,
                            Function function) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kWide = hn::MaxLanes(hn::ScalableTag<float>()) >= 16 ? 4 : 2;  // of 32 or 16 registers
  float partial[most_columns + hn::MaxLanes(hn::ScalableTag<float>())];
  for (int64_t begin = 0; begin < rows; begin += 256, x += 256 * stride) {
    const int64_t count = std::min<int64_t>(rows - begin, 256);
    int64_t c = 0;
    for (; c + kWide * lanes <= columns; c += kWide * lanes)
      columns_of_block<kWide, false>(x + c, count, stride, 0, partial + c, function);
    for (; c + lanes <= columns; c += lanes) columns_of_block<1, false>(x + c, count, stride, 0, partial + c, function);
    if (c < columns)
      columns_of_block<1, true>(x + c, count, stride, static_cast<size_t>(columns - c), partial + c, function);
    for (int64_t i = 0; i < columns; ++i) out[i] += partial[i];
  }
}

template <bool kLargest>
HWY_INLINE void column_extremes(const float* x, int64_t rows, int64_t stride, int64_t columns, double* out) {
  alignas(64) float best[most_columns];
  for (int64_t c = 0; c < columns; ++c) best[c] = static_cast<float>(out[c]);
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = x + r * stride;
    // A NaN in `best` fails every comparison, and one in `from` takes its place.
    for (int64_t c = 0; c < columns; ++c) {
      const float v = from[c];
      const bool wins = kLargest ? v > best[c] : v < best[c];
      best[c] = wins || v != v ? v : best[c];
    }
  }
  for (int64_t c = 0; c < columns; ++c) out[c] = best[c];
}

void columns(ReduceKind kind, const float* x, int64_t rows, int64_t stride, int64_t count, double* out) {
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::mean:
      return column_sums(x, rows, stride, count, out, Plain());
    case ReduceKind::sum_square:
      return column_sums(x, rows, stride, count, out, Squared());
    case ReduceKind::sum_abs:
      return column_sums(x, rows, stride, count, out, Magnitude());
    case ReduceKind::max:
      return column_extremes<true>(x, rows, stride, count, out);
    case ReduceKind::min:
      return column_extremes<false>(x, rows, stride, count, out);
    case ReduceKind::prod:
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < count; ++c) out[c] *= x[r * stride + c];
      }
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(row);
HWY_EXPORT(columns);

double reduce_row(ReduceKind kind, const float* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(row)(kind, x, n);
}

void reduce_columns(ReduceKind kind, const float* x, int64_t rows, int64_t stride, int64_t count, double* out) {
  HWY_DYNAMIC_DISPATCH(columns)(kind, x, rows, stride, count, out);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE

#include "backends/cpu/kernels/reduce/arg_extreme.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/reduce/reduce_rows.h"
#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/with_type.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/arg_extreme.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

// Row `a` of a block of neighbours: where it wins, `best` becomes its element and `index` a. n is a multiple of the
// vector or less than one.
template <bool kLargest, bool kLast, class D>
HWY_INLINE void take_vector(D d, const float* row, int32_t a, float* best, int32_t* index) {
  const hn::RebindToSigned<D> di;
  const auto v = hn::LoadU(d, row), b = hn::LoadU(d, best);
  // Written so that a NaN wins against a number; nothing wins against a NaN.
  const auto loses = kLargest ? (kLast ? hn::Lt(v, b) : hn::Le(v, b)) : (kLast ? hn::Gt(v, b) : hn::Ge(v, b));
  const auto wins = hn::AndNot(hn::IsNaN(b), hn::Not(loses));
  hn::StoreU(hn::IfThenElse(wins, v, b), d, best);
  const auto i = hn::LoadU(di, index);
  hn::StoreU(hn::IfThenElse(hn::RebindMask(di, wins), hn::Set(di, a), i), di, index);
}

template <bool kLargest, bool kLast>
void columns(const float* x, int64_t axis, int64_t step, int64_t n, float* best, int32_t* index) {
  const Tag d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < n; ++c) best[c] = x[c], index[c] = 0;
  for (int64_t a = 1; a < axis; ++a) {
    const float* row = x + a * step;
    int64_t c = 0;
    for (; c + lanes <= n; c += lanes)
      take_vector<kLargest, kLast>(d, row + c, static_cast<int32_t>(a), best + c, index + c);
    for (; c < n; ++c) take_vector<kLargest, kLast>(one, row + c, static_cast<int32_t>(a), best + c, index + c);
  }
}

void arg_columns(const float* x, int64_t axis, int64_t step, int64_t n, bool largest, bool last, float* best,
                 int32_t* index) {
  if (largest)
    return last ? columns<true, true>(x, axis, step, n, best, index)
                : columns<true, false>(x, axis, step, n, best, index);
  last ? columns<false, true>(x, axis, step, n, best, index) : columns<false, false>(x, axis, step, n, best, index);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(arg_columns);

namespace {

constexpr int64_t max_block = 512;  // neighbours at a time: their best elements and indices are 4 KiB
constexpr int64_t least_elements = 32 * 1024;

// One line of elements `step` apart.
template <class T>
int64_t arg_of_line(const T* x, int64_t axis, int64_t step, bool largest, bool last) {
  int64_t best = 0;
  for (int64_t a = 1; a < axis; ++a) {
    const T candidate = x[a * step], current = x[best * step];
    if (current != current) break;
    const bool better = largest ? candidate > current : candidate < current;
    if (better || candidate != candidate || (last && candidate == current)) best = a;
  }
  return best;
}

// The extreme first, by vectors, then where it is. With a NaN among the elements nothing equals it.
template <class T>
int64_t arg_of_row(const T* x, int64_t axis, bool largest, bool last) {
  T extreme;
  if constexpr (std::is_same_v<T, float>) {
    extreme = extreme_of_row(largest, x, axis);
  } else {
    const ReduceKind kind = largest ? ReduceKind::max : ReduceKind::min;
    Partial<T> total = identity<T>(kind);
    reduce_rows(kind, x, 1, axis, &total);
    extreme = static_cast<T>(total);
  }
  for (int64_t a = 0; a < axis; ++a)
    if (const int64_t at = last ? axis - 1 - a : a; x[at] == extreme) return at;
  return arg_of_line(x, axis, 1, largest, last);
}

// Rows of `n` <= max_block neighbours, one after the other.
template <class T>
void arg_of_columns(const T* x, int64_t axis, int64_t step, int64_t n, bool largest, bool last, int64_t* out) {
  T best[max_block];
  std::copy_n(x, n, best);
  std::fill_n(out, n, 0);
  for (int64_t a = 1; a < axis; ++a) {
    const T* row = x + a * step;
    for (int64_t c = 0; c < n; ++c) {
      const T v = row[c], b = best[c];
      const bool better = (largest ? v > b : v < b) || (last && v == b) || (v != v && b == b);
      best[c] = better ? v : b;
      out[c] = better ? a : out[c];
    }
  }
}

}  // namespace

void ArgExtreme::run(ThreadPool& pool, DType dtype, const void* in, int64_t* out) const {
  if (axis < 1) throw Error(ErrorCode::invalid_argument, "argmax or argmin along an axis of size 0 has no result");
  if (outer == 0 || inner == 0) return;
  const int64_t block = std::min<int64_t>(inner, max_block), blocks = (inner + block - 1) / block, work = block * axis;
  const int64_t grain = (least_elements + work - 1) / work;
  if (dtype == DType::f32 && inner > 1 && axis <= std::numeric_limits<int32_t>::max()) {
    const auto kernel = HWY_DYNAMIC_DISPATCH(arg_columns);
    for_pieces(pool, outer * blocks, grain, [&](int64_t begin, int64_t end) {
      alignas(64) float best[max_block];
      alignas(64) int32_t index[max_block];
      for (int64_t item = begin; item < end; ++item) {
        const int64_t first = item % blocks * block, n = std::min(block, inner - first);
        kernel(static_cast<const float*>(in) + item / blocks * axis * inner + first, axis, inner, n, largest,
               last_of_equals, best, index);
        std::copy_n(index, n, out + item / blocks * inner + first);
      }
    });
    return;
  }
  with_type(dtype, "argmax", [&](auto element) {
    using T = decltype(element);
    const T* x = static_cast<const T*>(in);
    for_pieces(pool, outer * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t first = item % blocks * block, n = std::min(block, inner - first);
        const T* from = x + item / blocks * axis * inner + first;
        int64_t* to = out + item / blocks * inner + first;
        if (inner == 1) {
          *to = arg_of_row(from, axis, largest, last_of_equals);
        } else {
          arg_of_columns(from, axis, inner, n, largest, last_of_equals, to);
        }
      }
    });
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE

#include "backends/cpu/kernels/reduce/cumulative.h"

#include <algorithm>
#include <type_traits>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/with_type.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/cumulative.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

// Adds one row of neighbours to their totals; the compiler makes vectors of it.
void add_row(const float* in, int64_t n, bool exclusive, double* total, float* out) {
  if (exclusive) {
    for (int64_t i = 0; i < n; ++i) {
      const float x = in[i];
      out[i] = static_cast<float>(total[i]);
      total[i] += static_cast<double>(x);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    total[i] += static_cast<double>(in[i]);
    out[i] = static_cast<float>(total[i]);
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(add_row);

namespace {

constexpr int64_t max_block = 256;
constexpr int64_t least_elements = 16 * 1024;

template <class T>
using Total =
    std::conditional_t<std::is_floating_point_v<T>, double, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

template <class T>
T combined(bool product, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return product ? a * b : a + b;
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return static_cast<T>(product ? x * y : x + y);
}

}  // namespace

namespace {

// Lines of consecutive elements, several side by side: each sum waits for the one before it.
template <int Lines, class T>
void run_lines(const RunningTotal& op, const T* x, T* y) {
  Total<T> total[Lines];
  std::fill_n(total, Lines, op.product ? Total<T>(1) : Total<T>(0));
  for (int64_t a = 0; a < op.axis; ++a) {
    const int64_t at = op.reverse ? op.axis - 1 - a : a;
#pragma GCC unroll 8
    for (int l = 0; l < Lines; ++l) {
      const Total<T> before = total[l];
      total[l] = combined(op.product, before, static_cast<Total<T>>(x[l * op.axis + at]));
      y[l * op.axis + at] = static_cast<T>(op.exclusive ? before : total[l]);
    }
  }
}

// Rows of at most max_block neighbours are added to each other.
template <class T>
void run_columns(const RunningTotal& op, const T* x, T* y, int64_t n) {
  Total<T> total[max_block];
  std::fill_n(total, n, op.product ? Total<T>(1) : Total<T>(0));
  const auto add = HWY_DYNAMIC_DISPATCH(add_row);
  for (int64_t a = 0; a < op.axis; ++a) {
    const int64_t at = (op.reverse ? op.axis - 1 - a : a) * op.inner;
    if constexpr (std::is_same_v<T, float>) {
      if (!op.product) {
        add(x + at, n, op.exclusive, total, y + at);
        continue;
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      const Total<T> before = total[i];
      total[i] = combined(op.product, before, static_cast<Total<T>>(x[at + i]));
      y[at + i] = static_cast<T>(op.exclusive ? before : total[i]);
    }
  }
}

}  // namespace

void RunningTotal::run(ThreadPool& pool, DType dtype, const void* in, void* out) const {
  if (outer * axis * inner == 0) return;
  const int64_t block = std::min(inner, max_block), blocks = (inner + block - 1) / block;
  with_type(dtype, "running total", [&](auto element) {
    using T = decltype(element);
    const T* x = static_cast<const T*>(in);
    T* y = static_cast<T*>(out);
    pool.parallel_for(outer * blocks, least_elements / (axis * block) + 1, [&](int64_t begin, int64_t end) {
      int64_t item = begin;
      if (inner == 1) {
        for (; item + 8 <= end; item += 8) run_lines<8>(*this, x + item * axis, y + item * axis);
        for (; item < end; ++item) run_lines<1>(*this, x + item * axis, y + item * axis);
        return;
      }
      for (; item < end; ++item) {
        const int64_t first = item % blocks * block, base = item / blocks * axis * inner + first;
        run_columns(*this, x + base, y + base, std::min(block, inner - first));
      }
    });
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE

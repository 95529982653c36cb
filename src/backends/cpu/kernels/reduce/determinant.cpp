#include "backends/cpu/kernels/reduce/determinant.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/determinant.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// `rows`: pointers to rows of f64, whole vectors long, which are changed, as is their order.
double eliminate(int64_t n, double** rows, PacedCancellation& cancellation) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  double det = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::fabs(rows[i][k]) > std::fabs(rows[pivot][k])) pivot = i;
    if (pivot != k) {
      std::swap(rows[k], rows[pivot]);
      det = -det;
    }
    const double* const top = rows[k];
    det *= top[k];
    if (top[k] == 0) break;
    cancellation.did((n - k) * (n - k));
    // Columns before k + 1 that share a vector with it are not looked at any more.
    const int64_t first = (k + 1) / lanes * lanes;
    for (int64_t i = k + 1; i < n; ++i) {
      const auto factor = hn::Set(d, rows[i][k] / top[k]);
      double* const row = rows[i];
      for (int64_t j = first; j < n; j += lanes)
        hn::Store(hn::Sub(hn::Load(d, row + j), hn::Mul(factor, hn::Load(d, top + j))), d, row + j);
    }
  }
  return det;
}

template <class T>
void determinants(int64_t n, int64_t begin, int64_t end, const T* in, T* out, double** rows, double* matrix,
                  int64_t pitch) {
  PacedCancellation cancellation;
  for (int64_t m = begin; m < end; ++m) {
    const T* from = in + m * n * n;
    for (int64_t i = 0; i < n; ++i, from += n) {
      rows[i] = matrix + i * pitch;
      std::copy_n(from, n, rows[i]);
    }
    out[m] = static_cast<T>(eliminate(n, rows, cancellation));
  }
}

void determinants_f32(int64_t n, int64_t begin, int64_t end, const float* in, float* out, double** rows, double* matrix,
                      int64_t pitch) {
  determinants(n, begin, end, in, out, rows, matrix, pitch);
}
void determinants_f64(int64_t n, int64_t begin, int64_t end, const double* in, double* out, double** rows,
                      double* matrix, int64_t pitch) {
  determinants(n, begin, end, in, out, rows, matrix, pitch);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(determinants_f32);
HWY_EXPORT(determinants_f64);

namespace {

constexpr int64_t longest_vector = 8;  // of f64

int64_t pitch_of(int64_t size) {
  return round_up(size, longest_vector);
}

// A matrix, and pointers to its rows.
size_t bytes_a_thread(int64_t size) {
  const auto pointers = static_cast<size_t>(pitch_of(size)) * sizeof(double*);
  return static_cast<size_t>(size * pitch_of(size)) * sizeof(double) + pointers;
}

}  // namespace

size_t Determinants::workspace_bytes(int threads) const {
  return bytes_a_thread(size) * static_cast<size_t>(threads);
}

void Determinants::run(ThreadPool& pool, DType dtype, const void* in, void* out, std::byte* workspace) const {
  constexpr int64_t least_work = 32 * 1024;  // of a thread, in multiplications
  const int64_t work = count * std::max<int64_t>(1, size * size * size / 3);
  const auto threads = static_cast<int>(
      std::clamp<int64_t>(work / least_work, 1, std::min<int64_t>(pool.size(), std::max<int64_t>(1, count))));
  pool.run(threads, [&](int thread) {
    std::byte* const own = workspace + static_cast<size_t>(thread) * bytes_a_thread(size);
    auto* const matrix = reinterpret_cast<double*>(own);
    auto* const rows = reinterpret_cast<double**>(matrix + size * pitch_of(size));
    const int64_t begin = count * thread / threads, end = count * (thread + 1) / threads;
    // What fills up the last vector is computed with, but never looked at.
    std::fill_n(matrix, size * pitch_of(size), 0.0);
    const auto run_type = [&]<class T>(auto kernel, T*) {
      kernel(size, begin, end, static_cast<const T*>(in), static_cast<T*>(out), rows, matrix, pitch_of(size));
    };
    if (dtype == DType::f32) return run_type(HWY_DYNAMIC_DISPATCH(determinants_f32), static_cast<float*>(nullptr));
    run_type(HWY_DYNAMIC_DISPATCH(determinants_f64), static_cast<double*>(nullptr));
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE

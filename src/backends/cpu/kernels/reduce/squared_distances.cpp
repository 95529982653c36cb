#include "backends/cpu/kernels/reduce/squared_distances.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/squared_distances.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/tile_traits-inl.h"
#include "hwy/highway.h"

// Rows of b that lie side by side in a panel, whatever the instruction set: 128 bytes, two vectors of AVX-512.
#ifndef CAMSHAFT_CPU_KERNELS_REDUCE_SQUARED_DISTANCES_WIDTH
#define CAMSHAFT_CPU_KERNELS_REDUCE_SQUARED_DISTANCES_WIDTH
namespace camshaft::cpu {
namespace {
template <class T>
constexpr int64_t panel_width = 128 / sizeof(T);
}  // namespace
}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t block = 1024;  // elements of a sum of f32

// The panel of rows begin … begin + count - 1 of b; what it has more than those is 0.
template <class T>
void pack(const T* b, int64_t count, int64_t length, T* panel) {
  constexpr int64_t width = panel_width<T>;
  if (count < width) std::fill_n(panel, width * length, T(0));
  for (int64_t j = 0; j < count; ++j)
    for (int64_t k = 0; k < length; ++k) panel[k * width + j] = b[j * length + k];
}

// sums[r][j] of kRows rows and kVectors vectors of a panel.
template <int kRows, int kVectors, class T>
HWY_INLINE void sum_tile(const T* const* a, const T* panel, int64_t length, T* sums) {
  const hn::CappedTag<T, panel_width<T>> d;
  constexpr int64_t lanes = hn::MaxLanes(d), width = panel_width<T>;
  hn::Vec<decltype(d)> sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  for (int64_t k = 0; k < length; ++k, panel += width) {
    hn::Vec<decltype(d)> b[kVectors];
    for (int v = 0; v < kVectors; ++v) b[v] = hn::LoadU(d, panel + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, a[r][k]);
      for (int v = 0; v < kVectors; ++v) {
        const auto difference = hn::Sub(x, b[v]);
        sum[r][v] = hn::MulAdd(difference, difference, sum[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, sums + r * width + v * lanes);
}

// Tiles of 16 registers hold 8 sums, of 32 16.
constexpr int tall = kTiles.registers >= 32 ? 8 : 4;

template <class T>
void sum_rows(const T* const* a, const T* panel, int64_t length, T* sums) {
  const hn::CappedTag<T, panel_width<T>> d;
  constexpr int64_t lanes = hn::MaxLanes(d), width = panel_width<T>;
  constexpr int vectors = width / lanes >= 2 ? 2 : 1;
  for (int64_t j = 0; j < width; j += vectors * lanes) sum_tile<tall, vectors>(a, panel + j, length, sums + j);
}

template <class T>
void distances(const T* a, int64_t rows, const T* panel, int64_t count, int64_t length, T* out, int64_t pitch) {
  constexpr int64_t width = panel_width<T>;
  alignas(64) T sums[tall * width];
  alignas(64) double totals[tall * width];
  for (int64_t i = 0; i < rows; i += tall) {
    const int64_t n = std::min<int64_t>(tall, rows - i);
    const T* at[tall];
    const auto go_to = [&](int64_t k) {  // what is beyond the last row is computed as that one, and not stored
      for (int64_t r = 0; r < tall; ++r) at[r] = a + (i + std::min(r, n - 1)) * length + k;
    };
    go_to(0);
    if (sizeof(T) == 8 || length <= block) {
      sum_rows(at, panel, length, sums);
    } else {
      std::fill_n(totals, tall * width, 0.0);
      for (int64_t k = 0; k < length; k += block) {
        go_to(k);
        sum_rows(at, panel + k * width, std::min(block, length - k), sums);
        for (int64_t s = 0; s < tall * width; ++s) totals[s] += static_cast<double>(sums[s]);
      }
      for (int64_t s = 0; s < tall * width; ++s) sums[s] = static_cast<T>(totals[s]);
    }
    for (int64_t r = 0; r < n; ++r)
      std::memcpy(out + (i + r) * pitch, sums + r * width, static_cast<size_t>(count) * sizeof(T));
  }
}

void pack_f32(const float* b, int64_t count, int64_t length, float* panel) {
  pack(b, count, length, panel);
}
void pack_f64(const double* b, int64_t count, int64_t length, double* panel) {
  pack(b, count, length, panel);
}
void distances_f32(const float* a, int64_t rows, const float* panel, int64_t count, int64_t length, float* out,
                   int64_t pitch) {
  distances(a, rows, panel, count, length, out, pitch);
}
void distances_f64(const double* a, int64_t rows, const double* panel, int64_t count, int64_t length, double* out,
                   int64_t pitch) {
  distances(a, rows, panel, count, length, out, pitch);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(pack_f32);
HWY_EXPORT(pack_f64);
HWY_EXPORT(distances_f32);
HWY_EXPORT(distances_f64);

namespace {

constexpr int64_t chunk_bytes = 128 * 1024;  // of results, which lie in L2 until `behind` has read them

template <class T>
void run_as(const SquaredDistances& s, ThreadPool& pool, const T* a, const T* b, T* out, T* panels,
            const Pointwise* behind, const void* const* behind_inputs) {
  constexpr int64_t width = panel_width<T>, tallest = 8;
  const int64_t count = divide_up(s.columns, width), panel = width * s.length;
  const int threads = PointwiseShares::useful(2 * s.rows * s.columns * s.length / 8, pool.size());
  const auto share = [&](int64_t items, const auto& body) {
    pool.run(threads, [&](int thread) {
      PacedCancellation cancellation;
      for (int64_t i = items * thread / threads; i < items * (thread + 1) / threads; ++i) {
        body(i);
        cancellation.did(panel);
      }
    });
  };
  share(count, [&](int64_t p) {
    const T* from = b + p * panel;
    const int64_t columns = std::min(width, s.columns - p * width);
    if constexpr (sizeof(T) == 4) {
      HWY_DYNAMIC_DISPATCH(pack_f32)(from, columns, s.length, panels + p * panel);
    } else {
      HWY_DYNAMIC_DISPATCH(pack_f64)(from, columns, s.length, panels + p * panel);
    }
  });
  const int64_t in_cache = chunk_bytes / (s.columns * static_cast<int64_t>(sizeof(T)));
  const int64_t even = divide_up(s.rows, threads);
  const int64_t height = std::max(tallest, std::min(even, in_cache) / tallest * tallest);
  share(divide_up(s.rows, height), [&](int64_t chunk) {
    const int64_t first = chunk * height, n = std::min(height, s.rows - first);
    T* const to = out + first * s.columns;
    for (int64_t p = 0; p < count; ++p) {
      const int64_t columns = std::min(width, s.columns - p * width);
      if constexpr (sizeof(T) == 4) {
        HWY_DYNAMIC_DISPATCH(distances_f32)
        (a + first * s.length, n, panels + p * panel, columns, s.length, to + p * width, s.columns);
      } else {
        HWY_DYNAMIC_DISPATCH(distances_f64)
        (a + first * s.length, n, panels + p * panel, columns, s.length, to + p * width, s.columns);
      }
    }
    void* const results = to;
    if (behind) behind->run_range(first * s.columns, n * s.columns, behind_inputs, &results);
  });
}

}  // namespace

size_t SquaredDistances::workspace_bytes(DType dtype) const {
  const int64_t bytes = bit_width(dtype) / 8, width = 128 / bytes;
  return static_cast<size_t>(divide_up(columns, width) * width * length * bytes);
}

void SquaredDistances::run(ThreadPool& pool, DType dtype, const void* a, const void* b, void* out, std::byte* workspace,
                           const Pointwise* behind, const void* const* behind_inputs) const {
  if (dtype == DType::f32) {
    run_as(*this, pool, static_cast<const float*>(a), static_cast<const float*>(b), static_cast<float*>(out),
           reinterpret_cast<float*>(workspace), behind, behind_inputs);
  } else {
    run_as(*this, pool, static_cast<const double*>(a), static_cast<const double*>(b), static_cast<double*>(out),
           reinterpret_cast<double*>(workspace), behind, behind_inputs);
  }
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE

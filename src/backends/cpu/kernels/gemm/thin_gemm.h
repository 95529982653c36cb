// Products of a few multiplications an element: all time goes into reading A and writing C. Internal to the kernels.
#pragma once

#include <cstdint>
#include <limits>

namespace camshaft::cpu {

/// c[i, n] = clamp(a[i, k] · b[k, n] + bias[n] + residual[i, n]), of which bias and residual may be null, as in
/// Epilogue. Elements are added up in the order of k.
struct ThinProduct {
  const float* a = nullptr;
  int64_t a_row_stride = 0, a_k_stride = 1;
  const float* b = nullptr;  ///< columns are contiguous
  int64_t b_k_stride = 0;
  int64_t k = 0, n = 0;
  float* c = nullptr;
  int64_t c_row_stride = 0;
  const float* bias = nullptr;
  const float* residual = nullptr;
  int64_t residual_row_stride = 0;
  float lo = -std::numeric_limits<float>::infinity(), hi = std::numeric_limits<float>::infinity();
};

/// Whether thin_product() takes sums of so many products: twice as many where C is narrow.
constexpr bool is_thin(int64_t k, int64_t n) {
  constexpr int64_t few = 8, narrow = 16;
  return k >= 1 && (k <= few || (k <= 2 * few && n <= narrow));
}

/// All of B for some columns stays in registers, from one row to the next.
void thin_product(const ThinProduct& product, int64_t rows);

}  // namespace camshaft::cpu

#include "backends/cpu/kernels/gemm/thin_gemm.h"

#include <algorithm>
#include <type_traits>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/thin_gemm.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using ThinTag = hn::ScalableTag<float>;
using ThinVec = hn::Vec<ThinTag>;

constexpr auto thin_lanes = static_cast<int64_t>(HWY_LANES(float));
// Vectors of B that registers hold beside the sums, and the most of its columns at once.
constexpr int thin_registers = kTiles.registers >= 32 ? 24 : 12, thin_most = 4;

template <int K>
constexpr int thin_vectors = std::clamp(thin_registers / K, 1, thin_most);

// NV vectors of columns from `col` on, `last` columns in the last.
template <int K, int NV, class Step>
void thin_columns(const ThinProduct& p, Step k_stride, int64_t col, int64_t last, int64_t row, int64_t rows) {
  const ThinTag d;
  const auto mask = hn::FirstN(d, static_cast<size_t>(last));
  const auto load = [&](const float* from, int v) HWY_ATTR {
    return v + 1 < NV ? hn::LoadU(d, from + v * thin_lanes) : masked_load(mask, d, from + v * thin_lanes);
  };
  ThinVec b[K][NV], bias[NV];
#pragma GCC unroll 16
  for (int k = 0; k < K; ++k)
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) b[k][v] = load(p.b + k * p.b_k_stride + col, v);
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) bias[v] = p.bias ? load(p.bias + col, v) : hn::Zero(d);
  const auto lo = hn::Set(d, p.lo), hi = hn::Set(d, p.hi);
  const float* a = p.a + row * p.a_row_stride;
  float* c = p.c + row * p.c_row_stride + col;
  const float* residual = p.residual ? p.residual + row * p.residual_row_stride + col : nullptr;
  const auto each_row = [&](auto finish) HWY_ATTR {
    for (int64_t r = 0; r < rows; ++r, a += p.a_row_stride, c += p.c_row_stride) {
      ThinVec sum[NV];
      const auto first = hn::Set(d, a[0]);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sum[v] = hn::Mul(first, b[0][v]);
#pragma GCC unroll 16
      for (int k = 1; k < K; ++k) {
        const auto x = hn::Set(d, a[k * k_stride]);
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) sum[v] = hn::MulAdd(x, b[k][v], sum[v]);
      }
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        const auto result = finish(sum[v], v);
        if (v + 1 < NV)
          hn::StoreU(result, d, c + v * thin_lanes);
        else
          masked_store(result, mask, d, c + v * thin_lanes);
      }
      if (residual) residual += p.residual_row_stride;
    }
  };
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (!residual && !p.bias && p.lo == -infinity && p.hi == infinity)
    return each_row([](ThinVec sum, int) HWY_ATTR { return sum; });
  each_row([&](ThinVec sum, int v) HWY_ATTR {
    if (p.bias) sum = hn::Add(sum, bias[v]);
    if (residual) sum = hn::Add(sum, load(residual, v));
    return clamp_keeping_nan(sum, lo, hi);
  });
}

template <int K, class Step>
void thin_rows(const ThinProduct& p, Step k_stride, int64_t rows) {
  constexpr int most = thin_vectors<K>;
  // More columns than these are written some rows at a time, so that cache lines are.
  constexpr int64_t some_rows = 16;
  const int64_t step = p.n > most * thin_lanes ? some_rows : rows;
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t here = std::min(step, rows - row);
    for (int64_t col = 0; col < p.n; col += most * thin_lanes) {
      const int64_t left = p.n - col, vectors = std::min<int64_t>(most, (left + thin_lanes - 1) / thin_lanes);
      const int64_t last = std::min(thin_lanes, left - (vectors - 1) * thin_lanes);
      if (vectors == 1) thin_columns<K, 1>(p, k_stride, col, last, row, here);
      if constexpr (most >= 2)
        if (vectors == 2) thin_columns<K, 2>(p, k_stride, col, last, row, here);
      if constexpr (most >= 3)
        if (vectors == 3) thin_columns<K, 3>(p, k_stride, col, last, row, here);
      if constexpr (most >= 4)
        if (vectors == 4) thin_columns<K, 4>(p, k_stride, col, last, row, here);
    }
  }
}

template <int K>
void thin_rows(const ThinProduct& p, int64_t rows) {
  if (p.a_k_stride == 1) return thin_rows<K>(p, std::integral_constant<int64_t, 1>(), rows);
  thin_rows<K>(p, p.a_k_stride, rows);
}

void thin(const ThinProduct& p, int64_t rows) {
  constexpr void (*functions[])(const ThinProduct&, int64_t) = {
      thin_rows<1>,  thin_rows<2>,  thin_rows<3>,  thin_rows<4>,  thin_rows<5>,  thin_rows<6>,
      thin_rows<7>,  thin_rows<8>,  thin_rows<9>,  thin_rows<10>, thin_rows<11>, thin_rows<12>,
      thin_rows<13>, thin_rows<14>, thin_rows<15>, thin_rows<16>};
  functions[p.k - 1](p, rows);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(thin);

void thin_product(const ThinProduct& product, int64_t rows) {
  if (rows > 0 && product.n > 0) HWY_DYNAMIC_DISPATCH(thin)(product, rows);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE

// Transposition in registers, for packing Q * K^T at run time: element by element it takes a quarter of the product's
// own time at depth 64.
#include <algorithm>

#include "backends/cpu/kernels/gemm/pack_internal.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/pack_transposed.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void transpose_4x4(const float* from, int64_t stride, float* out, int64_t stored) {
  for (int64_t j = 0; j < 4; ++j) {
    for (int64_t i = 0; i < 4; ++i) out[i * stored + j] = from[j * stride + i];
  }
}
#else
// Four columns of four K steps: rows of `from` are columns of `out`.
HWY_INLINE void transpose_4x4(const float* from, int64_t stride, float* out, int64_t stored) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto r0 = hn::LoadU(d, from);
  const auto r1 = hn::LoadU(d, from + stride);
  const auto r2 = hn::LoadU(d, from + 2 * stride);
  const auto r3 = hn::LoadU(d, from + 3 * stride);
  const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto b = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto e = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto f = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, a, b)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, a, b)), d, out + stored);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, e, f)), d, out + 2 * stored);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, e, f)), d, out + 3 * stored);
}
#endif

void pack_transposed_target(const float* b, int64_t k, int64_t n_stride, int64_t columns, int64_t stored, float* out) {
  const int64_t k4 = k / 4 * 4, columns4 = columns / 4 * 4;
  for (int64_t j = 0; j < columns4; j += 4) {
    for (int64_t i = 0; i < k4; i += 4) transpose_4x4(b + j * n_stride + i, n_stride, out + i * stored + j, stored);
    for (int64_t i = k4; i < k; ++i) {
      for (int64_t c = j; c < j + 4; ++c) out[i * stored + c] = b[c * n_stride + i];
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = columns4; j < columns; ++j) out[i * stored + j] = b[j * n_stride + i];
    for (int64_t j = columns; j < stored; ++j) out[i * stored + j] = 0.0f;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(pack_transposed_target);

void pack_transposed(const float* b, int64_t k, int64_t n_stride, int64_t columns, int64_t stored, float* out) {
  HWY_DYNAMIC_DISPATCH(pack_transposed_target)(b, k, n_stride, columns, stored, out);
}

}  // namespace camshaft::cpu
#endif

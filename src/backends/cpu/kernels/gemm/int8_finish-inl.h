// What becomes of the sums of an 8-bit product: rows of a tile, while they are in L1. Included once per instruction
// set.
#if defined(CAMSHAFT_CPU_INT8_FINISH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_INT8_FINISH_INL_H
#undef CAMSHAFT_CPU_INT8_FINISH_INL_H
#else
#define CAMSHAFT_CPU_INT8_FINISH_INL_H
#endif

#include <hwy/highway.h>

#include <cstring>
#include <limits>

#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/int8_gemm.h"
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace int8 {
namespace hn = hwy::HWY_NAMESPACE;

using SumTag = hn::ScalableTag<int32_t>;
using FloatTag = hn::ScalableTag<float>;
using SumVec = hn::Vec<SumTag>;
using FloatVec = hn::Vec<FloatTag>;

// A row of sums, and where it lies in the result; `columns` of them count.
struct SumRow {
  const int32_t* sums;
  int64_t row, col0, columns;
};

// Subtracts of_row · of_columns.
HWY_INLINE void take_zeros(int32_t* sums, int64_t columns, int32_t of_row, const int32_t* of_columns) {
  const SumTag d;
  const SumVec factor = hn::Set(d, of_row);
  for (int64_t i = 0; i < columns; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::StoreU(hn::Sub(hn::LoadU(d, sums + i), hn::Mul(factor, hn::LoadU(d, of_columns + i))), d, sums + i);
}

HWY_INLINE void finish_scaled(const Int8Problem& p, const SumRow& s) {
  const FloatTag d;
  const SumTag di;
  const Epilogue& e = p.epilogue;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* c = static_cast<float*>(p.c) + s.row * p.ldc + s.col0;
  const bool clamp = e.lo != -std::numeric_limits<float>::infinity() || e.hi != std::numeric_limits<float>::infinity();
  const FloatVec lo = hn::Set(d, e.lo), hi = hn::Set(d, e.hi);
  const auto value_at = [&](int64_t i, auto&& load) HWY_ATTR {
    FloatVec value = hn::Mul(hn::ConvertTo(d, hn::LoadU(di, s.sums + i)), hn::LoadU(d, p.scale + s.col0 + i));
    if (e.bias) value = hn::Add(value, load(e.bias + s.col0 + i));
    if (e.residual) value = hn::Add(value, load(e.residual + s.row * e.residual_ld + s.col0 + i));
    for (const Residual& more : e.more_residuals)
      if (more.data) value = hn::Add(value, load(more.data + s.row * more.ld + s.col0 + i));
    return clamp ? clamp_keeping_nan(value, lo, hi) : value;
  };
  int64_t i = 0;
  for (; i + lanes <= s.columns; i += lanes)
    hn::StoreU(value_at(i, [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); }), d, c + i);
  if (i >= s.columns) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(s.columns - i));
  masked_store(value_at(i, [&](const float* from) HWY_ATTR { return masked_load(mask, d, from); }), mask, d, c + i);
}

// As the reference has it: rounded to even, then moved by the zero point, then saturated; a NaN is 0. Bounds and zero
// point are integers, so numbers may be cut off before they are rounded, and be moved after.
template <class T>
HWY_INLINE void finish_steps(const Int8Problem& p, const SumRow& s) {
  const FloatTag d;
  const SumTag di;
  const hn::Rebind<uint8_t, SumTag> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = static_cast<float>(p.zero);
  const SumVec zeros = hn::Set(di, p.zero);
  const FloatVec lo = hn::Set(d, static_cast<float>(std::numeric_limits<T>::lowest()) - zero);
  const FloatVec hi = hn::Set(d, static_cast<float>(std::numeric_limits<T>::max()) - zero);
  const FloatVec none = hn::Set(d, -zero);
  const int32_t* HWY_RESTRICT sums = s.sums;
  const float* HWY_RESTRICT scale = p.scale + s.col0;
  uint8_t* HWY_RESTRICT c = static_cast<uint8_t*>(p.c) + s.row * p.ldc + s.col0;
  const auto steps_at = [&](int64_t i) HWY_ATTR {
    const FloatVec x = hn::Mul(hn::ConvertTo(d, hn::LoadU(di, sums + i)), hn::LoadU(d, scale + i));
    const FloatVec inside = hn::Min(hn::Max(hn::IfThenElse(hn::Eq(x, x), x, none), lo), hi);
    return hn::TruncateTo(d8, hn::BitCast(hn::RebindToUnsigned<SumTag>(), hn::Add(hn::NearestInt(inside), zeros)));
  };
  int64_t i = 0;
  for (; i + lanes <= s.columns; i += lanes) hn::StoreU(steps_at(i), d8, c + i);
  if (i >= s.columns) return;
  HWY_ALIGN uint8_t last[HWY_LANES(int32_t)];
  hn::StoreU(steps_at(i), d8, last);
  std::memcpy(c + i, last, static_cast<size_t>(s.columns - i));
}

// All of it but activations and callbacks.
HWY_INLINE void finish_row(const Int8Problem& p, const SumRow& s) {
  if (p.result == Int8Result::scaled) {
    finish_scaled(p, s);
  } else if (p.result == Int8Result::steps) {
    p.is_signed ? finish_steps<int8_t>(p, s) : finish_steps<uint8_t>(p, s);
  } else if (p.c) {
    std::memcpy(static_cast<int32_t*>(p.c) + s.row * p.ldc + s.col0, s.sums, static_cast<size_t>(s.columns) * 4);
  }
}

// The activation of rows of f32 that were just written.
HWY_INLINE void activate_rows(const Int8Problem& p, int64_t row0, int64_t rows, int64_t col0, int64_t columns) {
  const Epilogue& e = p.epilogue;
  if (p.result != Int8Result::scaled || !e.activation) return;
  ActivationBlock block{static_cast<float*>(p.c) + row0 * p.ldc + col0, p.ldc, rows, columns, nullptr, e.addend_ld};
  if (e.addend) block.addend = e.addend + row0 * e.addend_ld + col0;
  core_activate(*e.activation, block);
}

}  // namespace int8
}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif

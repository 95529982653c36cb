// What becomes of the sums of an 8-bit product: rows of a tile, while they are in L1. Included once per instruction
// set.
#if defined(CAMSHAFT_CPU_INT8_FINISH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_INT8_FINISH_INL_H
#undef CAMSHAFT_CPU_INT8_FINISH_INL_H
#else
#define CAMSHAFT_CPU_INT8_FINISH_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/int8_gemm.h"
#include "backends/cpu/kernels/gemm/int8_steps-inl.h"
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

// To c, which is the row's first column of them.
HWY_INLINE void finish_scaled(const Int8Problem& p, const SumRow& s, float* c) {
  const FloatTag d;
  const SumTag di;
  const Epilogue& e = p.epilogue;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
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

// 8 bits each of a line, as numbers: `lanes` of them from i on, all of which can be read.
HWY_INLINE FloatVec load_bytes(const uint8_t* from, bool is_signed) {
  const FloatTag d;
  const SumTag di;
  const hn::Rebind<uint8_t, SumTag> d8;
  const auto bytes = hn::LoadU(d8, from);
  if (is_signed) return hn::ConvertTo(d, hn::PromoteTo(di, hn::BitCast(hn::RebindToSigned<decltype(d8)>(), bytes)));
  return hn::ConvertTo(d, hn::PromoteTo(di, bytes));
}

// own · q + other · addend + shift of Int8Steps, without the addend where `addend` is null.
HWY_INLINE FloatVec combine_steps(const Int8Problem& p, FloatVec x, const uint8_t* addend) {
  const FloatTag d;
  const Int8Steps& steps = p.steps;
  if (steps.rounds) {
    if (!p.finite_scale) x = hn::IfThenElse(hn::Eq(x, x), x, hn::Set(d, steps.own_nan));
    x = hn::Round(hn::Min(hn::Max(x, hn::Set(d, steps.own_lo)), hn::Set(d, steps.own_hi)));
  }
  x = hn::MulAdd(x, hn::Set(d, steps.own), hn::Set(d, steps.shift));
  return addend ? hn::MulAdd(load_bytes(addend, steps.addend_is_signed), hn::Set(d, steps.other), x) : x;
}

// Steps before they are cut to 8 bits, rounded to even and moved by the zero point: a number of this size has no bits
// behind the point, so that adding it rounds, and its own bits are taken off with the zero point. NearestInt() would
// look for numbers beyond i32, of which the bounds leave none.
constexpr float kRounding = 12582912;  // 1.5 · 2^23

struct StepBounds {
  FloatVec lo, hi;  // moved by kRounding
  SumVec offset;    // the bits of that, less the zero point

  StepBounds(const Int8Steps& steps, float lowest, float highest) {
    const FloatTag d;
    const auto zero = static_cast<float>(steps.zero);
    const auto bound = [&](float x) { return std::nearbyint(std::min(std::max(x, lowest - zero), highest - zero)); };
    lo = hn::Set(d, kRounding + bound(steps.lo));
    hi = hn::Set(d, kRounding + bound(steps.hi));
    offset = hn::Sub(hn::BitCast(SumTag(), hn::Set(d, kRounding)), hn::Set(SumTag(), steps.zero));
  }

  HWY_INLINE SumVec operator()(FloatVec x) const {
    const FloatVec rounded = hn::Min(hn::Max(hn::Add(x, hn::Set(FloatTag(), kRounding)), lo), hi);
    return hn::Sub(hn::BitCast(SumTag(), rounded), offset);
  }
};

// As the reference has it: rounded to even, then moved by the zero point, then saturated; a NaN is 0. Bounds of the
// type and zero point are integers, so numbers may be cut off before or after they are rounded.
template <class T>
HWY_INLINE void finish_steps(const Int8Problem& p, const SumRow& s) {
  const FloatTag d;
  const SumTag di;
  const hn::Rebind<uint8_t, SumTag> d8;
  const Int8Steps& steps = p.steps;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(int32_t));
  const StepBounds cut(steps, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max());
  const FloatVec none = hn::Set(d, -static_cast<float>(steps.zero));
  const int32_t* HWY_RESTRICT sums = s.sums;
  const float* HWY_RESTRICT scale = p.scale + s.col0;
  uint8_t* HWY_RESTRICT c = static_cast<uint8_t*>(p.c) + s.row * p.ldc + s.col0;
  const uint8_t* const addend = steps.addend ? steps.addend + s.row * steps.addend_ld + s.col0 : nullptr;
  const auto steps_at = [&](int64_t i, const uint8_t* added) HWY_ATTR {
    FloatVec x = hn::Mul(hn::ConvertTo(d, hn::LoadU(di, sums + i)), hn::LoadU(d, scale + i));
    if (!steps.is_plain) x = combine_steps(p, x, added);
    if (!p.finite_scale) x = hn::IfThenElse(hn::Eq(x, x), x, none);
    return hn::TruncateTo(d8, hn::BitCast(hn::RebindToUnsigned<SumTag>(), cut(x)));
  };
  int64_t i = 0;
  for (; i + lanes <= s.columns; i += lanes) hn::StoreU(steps_at(i, addend ? addend + i : nullptr), d8, c + i);
  if (i < s.columns) {
    HWY_ALIGN uint8_t last[HWY_LANES(int32_t)], added[HWY_LANES(int32_t)] = {};
    if (addend) std::memcpy(added, addend + i, static_cast<size_t>(s.columns - i));
    hn::StoreU(steps_at(i, addend ? added : nullptr), d8, last);
    std::memcpy(c + i, last, static_cast<size_t>(s.columns - i));
  }
  for (i = 0; steps.table && i < s.columns; ++i) c[i] = steps.table[c[i]];
}

// Steps of `count` numbers, as finish_steps() has them.
template <class T>
HWY_INLINE void round_to_steps(const Int8Problem& p, const float* from, int64_t count, uint8_t* c) {
  const FloatTag d;
  const hn::Rebind<uint8_t, SumTag> d8;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(int32_t));
  const StepBounds cut(p.steps, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max());
  const FloatVec none = hn::Set(d, -static_cast<float>(p.steps.zero));
  const FloatVec own = hn::Set(d, p.steps.own), shift = hn::Set(d, p.steps.shift);
  // Numbers behind the last are read, but not written.
  for (int64_t i = 0; i < count; i += lanes) {
    FloatVec x = hn::MulAdd(hn::LoadU(d, from + i), own, shift);
    x = hn::IfThenElse(hn::Eq(x, x), x, none);
    const auto bytes = hn::TruncateTo(d8, hn::BitCast(hn::RebindToUnsigned<SumTag>(), cut(x)));
    if (i + lanes <= count) {
      hn::StoreU(bytes, d8, c + i);
    } else {
      HWY_ALIGN uint8_t last[HWY_LANES(int32_t)];
      hn::StoreU(bytes, d8, last);
      std::memcpy(c + i, last, static_cast<size_t>(count - i));
    }
  }
}

// Activated numbers of a tile stay in L1, where they are rounded.
HWY_NOINLINE inline void finish_activated(const Int8Problem& p, const SumTile& t) {
  constexpr int64_t most_rows = 8, most_columns = 64;
  HWY_ALIGN float x[most_rows * most_columns] = {};
  const Epilogue& e = p.epilogue;
  for (int64_t col = 0; col < t.columns; col += most_columns) {
    const int64_t columns = std::min(most_columns, t.columns - col), col0 = t.col0 + col;
    for (int64_t first = 0; first < t.rows; first += most_rows) {
      const int64_t rows = std::min(most_rows, t.rows - first), row0 = t.row + first;
      for (int64_t r = 0; r < rows; ++r)
        finish_scaled(p, {t.sums + (first + r) * t.ld + col, row0 + r, col0, columns}, x + r * most_columns);
      if (e.activation) {
        ActivationBlock block{x, most_columns, rows, columns, nullptr, e.addend_ld};
        if (e.addend) block.addend = e.addend + row0 * e.addend_ld + col0;
        core_activate(*e.activation, block);
      }
      for (int64_t r = 0; r < rows; ++r) {
        uint8_t* c = static_cast<uint8_t*>(p.c) + (row0 + r) * p.ldc + col0;
        p.steps.is_signed ? round_to_steps<int8_t>(p, x + r * most_columns, columns, c)
                          : round_to_steps<uint8_t>(p, x + r * most_columns, columns, c);
      }
    }
  }
}

// All of it but activations and callbacks.
HWY_INLINE void finish_row(const Int8Problem& p, const SumRow& s) {
  if (p.result == Int8Result::scaled) {
    finish_scaled(p, s, static_cast<float*>(p.c) + s.row * p.ldc + s.col0);
  } else if (p.result == Int8Result::steps) {
    p.steps.is_signed ? finish_steps<int8_t>(p, s) : finish_steps<uint8_t>(p, s);
  } else if (p.c) {
    std::memcpy(static_cast<int32_t*>(p.c) + s.row * p.ldc + s.col0, s.sums, static_cast<size_t>(s.columns) * 4);
  }
}

// What rows of sums become, for one problem.
class Finisher {
 public:
  explicit Finisher(const Int8Problem& p) : p_(p) {
#if CAMSHAFT_HAS_BYTE_PRODUCT
    if (StepsWriter::takes(p)) writer_.emplace(p);
#endif
  }

#if CAMSHAFT_HAS_BYTE_PRODUCT
  // What steps of this problem are written by, straight from registers; or null.
  const StepsWriter* writer() const {
    return writer_ ? &*writer_ : nullptr;
  }
#endif

  void operator()(const SumTile& t) const {
#if CAMSHAFT_HAS_BYTE_PRODUCT
    if (writer_) return write_tile(*writer_, t);
#endif
    if (p_.result == Int8Result::activated) return finish_activated(p_, t);
    for (int64_t r = 0; r < t.rows; ++r) finish_row(p_, {t.sums + r * t.ld, t.row + r, t.col0, t.columns});
  }

 private:
  const Int8Problem& p_;
#if CAMSHAFT_HAS_BYTE_PRODUCT
  std::optional<StepsWriter> writer_;
#endif
};

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

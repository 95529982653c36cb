// Attention of few queries, whose keys and values are read once and where they are, as f32 or narrower. Included once
// per instruction set.
#if defined(CAMSHAFT_CPU_ATTENTION_FEW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_ATTENTION_FEW_INL_H
#undef CAMSHAFT_CPU_ATTENTION_FEW_INL_H
#else
#define CAMSHAFT_CPU_ATTENTION_FEW_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backends/cpu/kernels/attention/attention_blocks.h"
#include "backends/cpu/kernels/attention/attention_tile-inl.h"
#include "backends/cpu/kernels/half.h"
#include "backends/cpu/kernels/join_lanes-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A vector of elements as f32.
HWY_INLINE PanelVec load_widened(const float* from) {
  return hn::LoadU(PanelTag(), from);
}
HWY_INLINE PanelVec load_widened(const int8_t* from) {
  const PanelTag d;
  const hn::Rebind<int8_t, PanelTag> narrow;
  return hn::ConvertTo(d, hn::PromoteTo(hn::RebindToSigned<PanelTag>(), hn::LoadU(narrow, from)));
}
// Its bits at the places of an f16's are a number that is 256 times as small, denormal ones included; NaN's
// become 1.875.
HWY_INLINE PanelVec load_widened(const Float8* from) {
  const PanelTag d;
  const hn::Rebind<int8_t, PanelTag> narrow;
  const hn::Rebind<int16_t, PanelTag> wide;
  const hn::Rebind<hwy::float16_t, PanelTag> half;
  const auto code = hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const int8_t*>(from)));
  const auto bits = hn::And(hn::ShiftLeft<7>(code), hn::Set(wide, static_cast<int16_t>(0xbf80)));
  const auto number = hn::PromoteTo(d, hn::BitCast(half, bits));
  const auto is_nan = hn::Eq(hn::Abs(number), hn::Set(d, 1.875f));
  return hn::IfThenElse(is_nan, hn::NaN(d), hn::Mul(number, hn::Set(d, 256.0f)));
}
template <class T>
HWY_INLINE PanelVec load_widened(const T* from) {
#if HWY_TARGET == HWY_SCALAR  // where Highway takes infinities and NaN of f16 for numbers
  return hn::Set(PanelTag(), to_float(*from));
#else
  using Lane = std::conditional_t<std::is_same_v<T, Half>, hwy::float16_t, hwy::bfloat16_t>;
  const hn::Rebind<Lane, PanelTag> narrow;
  return hn::PromoteTo(PanelTag(), hn::LoadU(narrow, reinterpret_cast<const Lane*>(from)));
#endif
}

// The first `count` of them, and zeros.
template <class T>
HWY_INLINE PanelVec load_some_widened(const T* from, int64_t count) {
  const PanelTag d;
  if constexpr (std::is_same_v<T, float>) {
    return masked_load(hn::FirstN(d, static_cast<size_t>(count)), d, from);
  } else {
    HWY_ALIGN float lanes[hn::MaxLanes(PanelTag())] = {};
    for (int64_t i = 0; i < count; ++i) lanes[i] = to_float(from[i]);
    return hn::Load(d, lanes);
  }
}

// out[r, k] = queries[r] · key k for MR rows and KR keys, at base + rows[k].
template <int MR, int KR, class T>
HWY_INLINE void few_score_tile(const float* const* queries, const T* base, const int64_t* rows, int64_t size,
                               float* out, int64_t out_stride) {
  const PanelTag d;
  const int64_t whole = size / panel_lanes() * panel_lanes(), rest = size - whole;
  PanelVec sum[MR][KR];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r)
#pragma GCC unroll 16
    for (int k = 0; k < KR; ++k) sum[r][k] = hn::Zero(d);
  for (int64_t i = 0; i < whole; i += panel_lanes()) {
    PanelVec key[KR];
#pragma GCC unroll 16
    for (int k = 0; k < KR; ++k) key[k] = load_widened(base + rows[k] + i);
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const PanelVec query = hn::LoadU(d, queries[r] + i);
#pragma GCC unroll 16
      for (int k = 0; k < KR; ++k) sum[r][k] = hn::MulAdd(query, key[k], sum[r][k]);
    }
  }
  if (rest > 0) {
#pragma GCC unroll 16
    for (int k = 0; k < KR; ++k) {
      const PanelVec key = load_some_widened(base + rows[k] + whole, rest);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) sum[r][k] = hn::MulAdd(load_some_widened(queries[r] + whole, rest), key, sum[r][k]);
    }
  }
  // Of whole fours: attention_lane_scores-inl.h has lanes added up in that order.
  constexpr int joined = (MR * KR + 3) / 4 * 4;
  HWY_ALIGN float vectors[joined * hn::MaxLanes(PanelTag())];
  HWY_ALIGN float sums[joined];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r)
#pragma GCC unroll 16
    for (int k = 0; k < KR; ++k) hn::Store(sum[r][k], d, vectors + (r * KR + k) * panel_lanes());
#pragma GCC unroll 4
  for (int i = MR * KR; i < joined; ++i) hn::Store(hn::Zero(d), d, vectors + i * panel_lanes());
  join_lanes<Sum>(vectors, joined, sums);
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r)
#pragma GCC unroll 16
    for (int k = 0; k < KR; ++k) out[r * out_stride + k] = sums[r * KR + k];
}

template <int MR, class T>
HWY_NOINLINE void few_scores_of(const float* const* queries, const T* base, const int64_t* rows, int64_t keys,
                                int64_t size, float* out, int64_t out_stride) {
  constexpr int together = MR > 2 ? 2 : 4;  // sums that registers have room for beside a query and keys
  int64_t k = 0;
  for (; k + together <= keys; k += together)
    few_score_tile<MR, together>(queries, base, rows + k, size, out + k, out_stride);
  for (; k < keys; ++k) few_score_tile<MR, 1>(queries, base, rows + k, size, out + k, out_stride);
}

// Calls `part(rows, first)` for parts of 4, 2 and 1 of `count` rows.
template <class Part>
HWY_INLINE void in_few_rows(int64_t count, Part&& part) {
  for (int64_t r = 0; r < count;) {
    if (count - r >= 4) {
      part(std::integral_constant<int, 4>(), r);
      r += 4;
    } else if (count - r >= 2) {
      part(std::integral_constant<int, 2>(), r);
      r += 2;
    } else {
      part(std::integral_constant<int, 1>(), r);
      r += 1;
    }
  }
}

// out[r, k] = queries[r] · key k, at base + rows[k].
template <class T>
HWY_INLINE void few_scores(const float* const* queries, int64_t count, const T* base, const int64_t* rows, int64_t keys,
                           int64_t size, float* out, int64_t out_stride) {
  in_few_rows(count, [&](auto mr, int64_t r) HWY_ATTR {
    few_scores_of<decltype(mr)::value>(queries + r, base, rows, keys, size, out + r * out_stride, out_stride);
  });
}

// What few_values() adds up.
template <class T>
struct FewValues {
  const float* p = nullptr;  // probabilities, row after row
  int64_t p_stride = 0;
  const T* base = nullptr;  // of values: that of key k at base + rows[k]
  const int64_t* rows = nullptr;
  int64_t keys = 0, columns = 0;
  float* sums = nullptr;  // rows of whole vectors
  int64_t sums_stride = 0;
  const float* factor = nullptr;  // of each row: what the sums are multiplied by before; null: they hold nothing yet
};

// Columns [first, first + NV vectors), of the last of which `last` are there.
template <int MR, int NV, class T>
HWY_NOINLINE void few_value_tile(const FewValues<T>& t, int64_t row, int64_t first, int64_t last) {
  const PanelTag d;
  PanelVec sum[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) {
      const float* from = t.sums + (row + r) * t.sums_stride + first + v * panel_lanes();
      sum[r][v] = t.factor ? hn::Mul(hn::Load(d, from), hn::Set(d, t.factor[row + r])) : hn::Zero(d);
    }
  const float* p = t.p + row * t.p_stride;
  const auto add = [&](int64_t k, const PanelVec(&value)[NV]) HWY_ATTR {
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const PanelVec weight = hn::Set(d, p[r * t.p_stride + k]);
#pragma GCC unroll 16
      for (int v = 0; v < NV; ++v) sum[r][v] = hn::MulAdd(weight, value[v], sum[r][v]);
    }
  };
  PanelVec value[NV];
  for (int64_t k = 0; k < t.keys; ++k) {
    const T* from = t.base + t.rows[k] + first;
#pragma GCC unroll 16
    for (int v = 0; v + 1 < NV; ++v) value[v] = load_widened(from + v * panel_lanes());
    const T* end = from + (NV - 1) * panel_lanes();
    value[NV - 1] = last == panel_lanes() ? load_widened(end) : load_some_widened(end, last);
    add(k, value);
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v)
      hn::Store(sum[r][v], d, t.sums + (row + r) * t.sums_stride + first + v * panel_lanes());
}

// sums[r, c] = factor[r] · sums[r, c] + Σ_k p[r, k] · value[k, c]
template <class T>
HWY_INLINE void few_values(int64_t count, const FewValues<T>& t) {
  const int64_t lanes = panel_lanes();
  in_few_rows(count, [&](auto mr, int64_t r) HWY_ATTR {
    constexpr int rows = decltype(mr)::value, vectors = rows > 2 ? 2 : 4;
    int64_t c = 0;
    for (; c + vectors * lanes <= t.columns; c += vectors * lanes) few_value_tile<rows, vectors>(t, r, c, lanes);
    for (; c < t.columns; c += lanes) few_value_tile<rows, 1>(t, r, c, std::min(lanes, t.columns - c));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif

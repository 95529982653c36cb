// Steps of 8 bits from rows of sums, a whole vector of bytes at once. Included once per instruction set.
#if defined(CAMSHAFT_CPU_INT8_STEPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_INT8_STEPS_INL_H
#undef CAMSHAFT_CPU_INT8_STEPS_INL_H
#else
#define CAMSHAFT_CPU_INT8_STEPS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/gemm/int8_gemm.h"
#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace int8 {

// Rows of sums, `ld` apart and readable up to whole vectors, and where they lie in the result.
struct SumTile {
  const int32_t* sums;
  int64_t ld, rows, row, col0, columns;
};

#if CAMSHAFT_HAS_BYTE_PRODUCT

namespace hn = hwy::HWY_NAMESPACE;

// Four vectors of sums become one of bytes. Made once for a problem: a tile of few products takes no longer than what
// is computed here.
class StepsWriter {
 public:
  explicit StepsWriter(const Int8Problem& p)
      : steps_(p.steps), scale_(p.scale), c_(static_cast<uint8_t*>(p.c)), ldc_(p.ldc) {
    // Steps of i8 are 128 more until they are stored.
    const int32_t moved = steps_.is_signed ? 128 : 0, zero = steps_.zero + moved;
    const auto bound = [&](float x) {
      const float least = static_cast<float>(-zero), most = static_cast<float>(255 - zero);
      return static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(std::min(std::max(x, least), most))) + zero);
    };
    const uint8_t lo = bound(steps_.lo), hi = bound(steps_.hi);
    is_bounded_ = lo != 0 || hi != 255;
    lo_ = hn::Set(D8(), lo);
    hi_ = hn::Set(D8(), hi);
    zero_ = hn::Set(D16(), static_cast<int16_t>(zero));
    bits_ = hn::Set(D8(), static_cast<uint8_t>(moved));
    // Packing takes the vectors' 128-bit blocks in turn.
    HWY_ALIGN int32_t order[kLanes];
    for (int i = 0; i < kLanes; ++i) order[i] = 4 * (i % (kLanes / 4)) + i / (kLanes / 4);
    order_ = hn::Load(D32(), order);
  }

  // Whether a problem may have it: its vectors neither meet NaN nor numbers beyond i32, and look up bytes only where
  // the machine has that.
  static bool takes(const Int8Problem& p) {
    return p.result == Int8Result::steps && p.steps.is_small &&
           (!p.steps.table || (CAMSHAFT_TARGET_IS_AVX512 && has_byte_tables()));
  }

  // The scales of NV vectors of columns, for all rows.
  template <int NV>
  struct Scales {
    HWY_INLINE Scales(const StepsWriter& writer, int64_t column) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) of[v] = hn::LoadU(DF(), writer.scale_ + column + v * kLanes);
    }
    hn::Vec<hn::ScalableTag<float>> of[NV];
  };

  // NV vectors of sums, of which `count` matter, of a row of the result from column `column` on.
  template <int NV>
  HWY_INLINE void write(const hn::Vec<hn::ScalableTag<int32_t>> (&sums)[NV], const Scales<NV>& scales, int64_t row,
                        int64_t column, int64_t count) const {
    hn::Vec<D32> steps[NV];
    round_row<NV>(sums, scales, row, column, count, steps);
    store<NV>(bytes_of<NV>(steps), c_ + row * ldc_ + column, count);
  }

  // A tile's rows, `apart` from each other, of which the first `there` are written: as many as share a vector of bytes
  // at a time.
  template <int kRows, int NV>
  HWY_INLINE void write_tile(const hn::Vec<hn::ScalableTag<int32_t>> (&sums)[kRows][NV], int64_t row, int64_t apart,
                             int64_t there, int64_t column, int64_t count) const {
    constexpr int together = NV == 1 ? 4 : NV == 2 ? 2 : 1, whole = together > 1 ? kRows / together * together : 0;
    const Scales<NV> scales(*this, column);
    if constexpr (whole > 0) {
#pragma GCC unroll 16
      for (int r = 0; r < whole; r += together) {
        if (r + together > there) {
#pragma GCC unroll 4
          for (int i = 0; i < together; ++i)
            if (r + i < there) write<NV>(sums[r + i], scales, row + (r + i) * apart, column, count);
          continue;
        }
        hn::Vec<D32> rows[together][NV];
#pragma GCC unroll 4
        for (int i = 0; i < together; ++i)
#pragma GCC unroll 4
          for (int v = 0; v < NV; ++v) rows[i][v] = sums[r + i][v];
        write_rows<together, NV>(rows, scales, row + r * apart, apart, column, count);
      }
    }
#pragma GCC unroll 16
    for (int r = whole; r < kRows; ++r)
      if (r < there) write<NV>(sums[r], scales, row + r * apart, column, count);
  }

 private:
  using D32 = hn::ScalableTag<int32_t>;
  using DF = hn::ScalableTag<float>;
  using D16 = hn::ScalableTag<int16_t>;
  using D8 = hn::ScalableTag<uint8_t>;
  static constexpr int kLanes = HWY_LANES(int32_t);

  // Rows `apart` from each other, whose vectors are four together: they become one of bytes.
  template <int kRows, int NV>
  HWY_INLINE void write_rows(const hn::Vec<hn::ScalableTag<int32_t>> (&sums)[kRows][NV], const Scales<NV>& scales,
                             int64_t row, int64_t apart, int64_t column, int64_t count) const {
    static_assert(kRows > 1 && kRows * NV == 4);
    hn::Vec<D32> steps[4];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      hn::Vec<D32> of_row[NV];
      round_row<NV>(sums[r], scales, row + r * apart, column, count, of_row);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) steps[r * NV + v] = of_row[v];
    }
    const auto bytes = bytes_of<4>(steps);
    uint8_t* c = c_ + row * ldc_ + column;
    const int64_t ldc = apart * ldc_;
    const hn::Half<D8> half;
    const auto low = hn::LowerHalf(half, bytes), high = hn::UpperHalf(half, bytes);
    if constexpr (NV == 2) {
      store_part(half, low, c, count);
      store_part(half, high, c + ldc, count);
    } else {
      const hn::Half<decltype(half)> quarter;
      store_part(quarter, hn::LowerHalf(quarter, low), c, count);
      store_part(quarter, hn::UpperHalf(quarter, low), c + ldc, count);
      store_part(quarter, hn::LowerHalf(quarter, high), c + 2 * ldc, count);
      store_part(quarter, hn::UpperHalf(quarter, high), c + 3 * ldc, count);
    }
  }

  static HWY_INLINE hn::Vec<DF> bytes_at(const uint8_t* from, bool is_signed) {
    const hn::Rebind<uint8_t, D32> d8;
    const auto bytes = hn::LoadU(d8, from);
    if (is_signed)
      return hn::ConvertTo(DF(), hn::PromoteTo(D32(), hn::BitCast(hn::RebindToSigned<decltype(d8)>(), bytes)));
    return hn::ConvertTo(DF(), hn::PromoteTo(D32(), bytes));
  }

  template <int NV>
  HWY_INLINE void combine(hn::Vec<DF> (&x)[NV], int64_t row, int64_t column, int64_t count) const {
    const DF df;
    const Int8Steps& s = steps_;
    const auto own = hn::Set(df, s.own), shift = hn::Set(df, s.shift), other = hn::Set(df, s.other);
    if (s.rounds) {
      const auto own_lo = hn::Set(df, s.own_lo), own_hi = hn::Set(df, s.own_hi);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) x[v] = hn::Round(hn::Min(hn::Max(x[v], own_lo), own_hi));
    }
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) x[v] = hn::MulAdd(x[v], own, shift);
    if (!s.addend) return;
    HWY_ALIGN uint8_t last[4 * kLanes];
    const uint8_t* addend = s.addend + row * s.addend_ld + column;
    if (count < NV * kLanes) {
      std::memcpy(last, addend, static_cast<size_t>(count));
      addend = last;
    }
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) x[v] = hn::MulAdd(bytes_at(addend + v * kLanes, s.addend_is_signed), other, x[v]);
  }

  template <int NV>
  HWY_INLINE void round_row(const hn::Vec<D32> (&sums)[NV], const Scales<NV>& scales, int64_t row, int64_t column,
                            int64_t count, hn::Vec<D32> (&steps)[NV]) const {
    hn::Vec<DF> x[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) x[v] = hn::Mul(hn::ConvertTo(DF(), sums[v]), scales.of[v]);
    if (!steps_.is_plain) combine<NV>(x, row, column, count);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) steps[v] = round_to_integers(D32(), x[v]);
  }

  // In the order of the vectors.
  template <int NV>
  HWY_INLINE hn::Vec<D8> bytes_of(const hn::Vec<D32> (&steps)[NV]) const {
    const auto low = hn::SaturatedAdd(hn::ReorderDemote2To(D16(), steps[0], steps[NV > 1 ? 1 : 0]), zero_);
    auto high = low;
    if constexpr (NV > 2) high = hn::SaturatedAdd(hn::ReorderDemote2To(D16(), steps[2], steps[NV - 1]), zero_);
    auto bytes = pack_to_bytes(D8(), low, high);
    if (is_bounded_) bytes = hn::Min(hn::Max(bytes, lo_), hi_);
    bytes = hn::Xor(bytes, bits_);
    bytes = hn::BitCast(D8(), hn::TableLookupLanes(hn::BitCast(D32(), bytes), hn::IndicesFromVec(D32(), order_)));
#if CAMSHAFT_TARGET_IS_AVX512
    if (steps_.table) {
      const auto part = [&](int i) HWY_ATTR { return hn::LoadU(D8(), steps_.table + 64 * i); };
      bytes = look_up_256(part(0), part(1), part(2), part(3), bytes);
    }
#endif
    return bytes;
  }

  // The first `count` of a part of a vector.
  template <class D>
  static HWY_INLINE void store_part(D d, hn::Vec<D> bytes, uint8_t* c, int64_t count) {
    if (count == static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(bytes, d, c);
#if CAMSHAFT_TARGET_IS_AVX512
    hn::BlendedStore(bytes, hn::FirstN(d, static_cast<size_t>(count)), d, c);
#else
    HWY_ALIGN uint8_t all[4 * kLanes];
    hn::StoreU(bytes, d, all);
    std::memcpy(c, all, static_cast<size_t>(count));
#endif
  }

  template <int NV>
  static HWY_INLINE void store(hn::Vec<D8> bytes, uint8_t* c, int64_t count) {
    const hn::Half<D8> half;
    if constexpr (NV == 1) {
      const hn::Half<decltype(half)> quarter;
      store_part(quarter, hn::LowerHalf(quarter, hn::LowerHalf(half, bytes)), c, count);
    } else if constexpr (NV == 2) {
      store_part(half, hn::LowerHalf(half, bytes), c, count);
    } else {
      store_part(D8(), bytes, c, count);
    }
  }

  Int8Steps steps_;
  const float* scale_;
  uint8_t* c_;
  int64_t ldc_;
  hn::Vec<D8> lo_, hi_, bits_;
  hn::Vec<D16> zero_;
  hn::Vec<D32> order_;
  bool is_bounded_;
};

// `writer` in a copy: what is written could be its members otherwise, which were read again for each row.
template <int NV>
HWY_INLINE void write_columns(StepsWriter writer, const SumTile& t, int64_t at, int64_t count) {
  constexpr int64_t lanes = HWY_LANES(int32_t);
  const hn::ScalableTag<int32_t> d;
  const StepsWriter::Scales<NV> scales(writer, t.col0 + at);
  for (int64_t r = 0; r < t.rows; ++r) {
    hn::Vec<hn::ScalableTag<int32_t>> sums[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) sums[v] = hn::LoadU(d, t.sums + r * t.ld + at + v * lanes);
    writer.write<NV>(sums, scales, t.row + r, t.col0 + at, count);
  }
}

HWY_NOINLINE inline void write_tile(const StepsWriter& writer, SumTile t) {
  constexpr int64_t lanes = HWY_LANES(int32_t);
  int64_t at = 0;
  for (; at + 3 * lanes < t.columns; at += 4 * lanes)
    write_columns<4>(writer, t, at, std::min(4 * lanes, t.columns - at));
  const int64_t left = t.columns - at;
  if (left > 2 * lanes) return write_columns<3>(writer, t, at, left);
  if (left > lanes) return write_columns<2>(writer, t, at, left);
  if (left > 0) write_columns<1>(writer, t, at, left);
}

#endif

}  // namespace int8
}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif

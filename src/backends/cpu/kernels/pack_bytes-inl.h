// Four vectors of i32 as one of bytes, two as one of 16 bits, and one of bytes as four of f32. Included once per
// instruction set.
#if defined(CAMSHAFT_CPU_KERNELS_PACK_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_KERNELS_PACK_BYTES_INL_H_
#undef CAMSHAFT_CPU_KERNELS_PACK_BYTES_INL_H_
#else
#define CAMSHAFT_CPU_KERNELS_PACK_BYTES_INL_H_
#endif

#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/tile_traits-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if CAMSHAFT_HAS_BYTE_PRODUCT
/// Truncated; what is beyond i32, and NaN, becomes the lowest. (Highway's own looks for what is beyond.)
template <class V>
HWY_INLINE hn::Vec<hn::RebindToSigned<hn::DFromV<V>>> truncate_to_integers(V x) {
  if constexpr (sizeof(x.raw) == 64) {
    return {_mm512_cvttps_epi32(x.raw)};
  } else {
    return {_mm256_cvttps_epi32(x.raw)};
  }
}

/// Saturated to u16 or i16: 128 bits of `low` and of `high` in turn. (This Highway has it for i16 alone.)
template <class T, class V>
HWY_INLINE hn::Vec<hn::Repartition<T, hn::DFromV<V>>> pack_to_words(V low, V high) {
  if constexpr (sizeof(low.raw) == 64) {
    return {std::is_signed_v<T> ? _mm512_packs_epi32(low.raw, high.raw) : _mm512_packus_epi32(low.raw, high.raw)};
  } else {
    return {std::is_signed_v<T> ? _mm256_packs_epi32(low.raw, high.raw) : _mm256_packus_epi32(low.raw, high.raw)};
  }
}

/// Four vectors packed to bytes, whose 128-bit blocks packing takes in turn, one behind the other.
template <class D8, class V8, class T>
HWY_INLINE void store_packed(D8 d8, V8 mixed, T* to) {
  const hn::ScalableTag<int32_t> d;
  constexpr int32_t blocks = HWY_LANES(float) / 4;
  HWY_ALIGN int32_t order[HWY_LANES(float)];
  for (int32_t w = 0; w < 4 * blocks; ++w) order[w] = w % blocks * 4 + w / blocks;
  const auto words = hn::TableLookupLanes(hn::BitCast(d, mixed), hn::SetTableIndices(d, order));
  hn::StoreU(hn::BitCast(d8, words), d8, to);
}

/// Plus `added`, saturated to u8 or i8: 128-bit blocks of the four in turn.
template <class T>
HWY_INLINE hn::Vec<hn::ScalableTag<T>> packed_sums(const hn::Vec<hn::ScalableTag<int32_t>> (&whole)[4],
                                                   hn::Vec<hn::ScalableTag<int16_t>> added) {
  const hn::ScalableTag<int16_t> d16;
  const auto low = hn::SaturatedAdd(hn::ReorderDemote2To(d16, whole[0], whole[1]), added);
  const auto high = hn::SaturatedAdd(hn::ReorderDemote2To(d16, whole[2], whole[3]), added);
  return pack_to_bytes(hn::ScalableTag<T>(), low, high);
}

/// The same, stored one behind the other.
template <class T>
HWY_INLINE void store_bytes(const hn::Vec<hn::ScalableTag<int32_t>> (&whole)[4],
                            hn::Vec<hn::ScalableTag<int16_t>> added, T* to) {
  store_packed(hn::ScalableTag<T>(), packed_sums<T>(whole, added), to);
}
#endif

/// Saturated to u8 or i8, and stored one behind the other: one store where there would be four, each behind two moves
/// of bytes within the vector.
template <class T>
HWY_INLINE void store_bytes(const hn::Vec<hn::ScalableTag<int32_t>> (&whole)[4], T* to) {
  const hn::ScalableTag<int32_t> d;
#if CAMSHAFT_HAS_BYTE_PRODUCT
  const hn::Repartition<int16_t, decltype(d)> d16;
  const hn::Repartition<T, decltype(d)> d8;
  store_packed(
      d8,
      pack_to_bytes(d8, hn::ReorderDemote2To(d16, whole[0], whole[1]), hn::ReorderDemote2To(d16, whole[2], whole[3])),
      to);
#else
  const hn::Rebind<T, decltype(d)> d8;
  const auto lo = hn::Set(d, std::numeric_limits<T>::lowest()), hi = hn::Set(d, std::numeric_limits<T>::max());
  for (int v = 0; v < 4; ++v)
    hn::StoreU(hn::DemoteTo(d8, hn::Min(hn::Max(whole[v], lo), hi)), d8, to + v * static_cast<int>(hn::Lanes(d)));
#endif
}

/// Two vectors saturated to u16 or i16 likewise.
template <class T>
HWY_INLINE void store_words(const hn::Vec<hn::ScalableTag<int32_t>> (&whole)[2], T* to) {
  const hn::ScalableTag<int32_t> d;
#if CAMSHAFT_HAS_BYTE_PRODUCT
  const hn::Repartition<T, decltype(d)> d16;
  const auto mixed = pack_to_words<T>(whole[0], whole[1]);
  // Halves of 128-bit blocks are of either vector.
  constexpr int32_t halves = HWY_LANES(float) / 4;  // of a vector
  HWY_ALIGN int32_t order[HWY_LANES(float)];
  for (int32_t w = 0; w < 4 * halves; ++w) {
    const int32_t half = w / 2, from = half < halves ? 2 * half : 2 * (half - halves) + 1;
    order[w] = 2 * from + w % 2;
  }
  const auto words = hn::TableLookupLanes(hn::BitCast(d, mixed), hn::SetTableIndices(d, order));
  hn::StoreU(hn::BitCast(d16, words), d16, to);
#else
  const hn::Rebind<T, decltype(d)> d16;
  const auto lo = hn::Set(d, std::numeric_limits<T>::lowest()), hi = hn::Set(d, std::numeric_limits<T>::max());
  for (int v = 0; v < 2; ++v)
    hn::StoreU(hn::DemoteTo(d16, hn::Min(hn::Max(whole[v], lo), hi)), d16, to + v * static_cast<int>(hn::Lanes(d)));
#endif
}

#if CAMSHAFT_HAS_BYTE_PRODUCT
/// What bytes_as_floats() adds to each byte of type T.
template <class T>
inline constexpr float byte_offset = 0x1p23f + (std::is_signed_v<T> ? 128.0f : 0.0f);

/// Bytes, each plus byte_offset<T>, in the order that pack_as_read() undoes: they are put below the exponent of 2^23
/// within blocks of 128 bits, which takes 6 instructions for 4 vectors where to widen and to convert takes 12.
template <class T>
HWY_INLINE void bytes_as_floats(const T* from, hn::Vec<hn::ScalableTag<float>> (&x)[4]) {
  const hn::ScalableTag<float> d;
  const hn::Repartition<uint8_t, decltype(d)> d8;
  const hn::Repartition<uint16_t, decltype(d)> d16;
  auto bytes = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(from));
  if constexpr (std::is_signed_v<T>) bytes = hn::Xor(bytes, hn::Set(d8, 0x80));
  const auto low = hn::BitCast(d16, hn::InterleaveLower(d8, bytes, hn::Zero(d8)));
  const auto high = hn::BitCast(d16, hn::InterleaveUpper(d8, bytes, hn::Zero(d8)));
  const auto exponent = hn::Set(d16, 0x4b00);
  x[0] = hn::BitCast(d, hn::InterleaveLower(d16, low, exponent));
  x[1] = hn::BitCast(d, hn::InterleaveUpper(d16, low, exponent));
  x[2] = hn::BitCast(d, hn::InterleaveLower(d16, high, exponent));
  x[3] = hn::BitCast(d, hn::InterleaveUpper(d16, high, exponent));
}

/// Vectors in the order of bytes_as_floats(), plus `added`, saturated to u8 or i8.
template <class T>
HWY_INLINE void pack_as_read(const hn::Vec<hn::ScalableTag<int32_t>> (&whole)[4],
                             hn::Vec<hn::ScalableTag<int16_t>> added, T* to) {
  hn::StoreU(packed_sums<T>(whole, added), hn::ScalableTag<T>(), to);
}
#endif

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard

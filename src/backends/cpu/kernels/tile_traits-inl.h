// The row of the target that is being compiled, and its instructions beyond what Highway has: the one place where a
// kernel's instruction set is asked for by name. Included once per instruction set.
//
// The macros say which of the functions here exist, for code that could not be compiled without them; what can asks
// kTarget. They expand to conditions on the target of the moment.
#ifndef CAMSHAFT_CPU_TILE_TRAITS_MACROS
#define CAMSHAFT_CPU_TILE_TRAITS_MACROS
#define CAMSHAFT_TARGET_IS_AVX512 (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)
/// Two rows of a tile can share a vector: load_half_twice().
#define CAMSHAFT_SHARES_VECTORS CAMSHAFT_TARGET_IS_AVX512
/// multiply_add_pairs(), round_to_pairs().
#define CAMSHAFT_HAS_BF16_PAIRS CAMSHAFT_TARGET_IS_AVX512
/// add_word_pairs(), multiply_byte_pairs(), add_byte_dots(), round_to_integers(), pack_to_bytes().
#define CAMSHAFT_HAS_BYTE_PRODUCT (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)
#endif

#if defined(CAMSHAFT_CPU_TILE_TRAITS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_TILE_TRAITS_INL_H
#undef CAMSHAFT_CPU_TILE_TRAITS_INL_H
#else
#define CAMSHAFT_CPU_TILE_TRAITS_INL_H
#endif

#include <hwy/highway.h>

#include "backends/cpu/kernels/tile_traits.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

inline constexpr TileTraits kTarget = traits_of(HWY_TARGET);
inline constexpr RegisterTiles kTiles = kTarget.tiles;
static_assert(kTarget.lanes() == HWY_LANES(float));
static_assert((kTarget.even_product.vectors > 0) == CAMSHAFT_SHARES_VECTORS);
static_assert(kTarget.bf16_pairs == CAMSHAFT_HAS_BF16_PAIRS);
static_assert((kTarget.byte_product != ByteProduct::none) == CAMSHAFT_HAS_BYTE_PRODUCT);

// Or the compiler reads it from memory again for each of its uses.
template <class V>
HWY_INLINE void keep_in_register(V& value) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  __asm__("" : "+v"(value.raw));
#elif HWY_TARGET == HWY_NEON
  __asm__("" : "+w"(value.raw));
#else
  (void)value;
#endif
}

#if CAMSHAFT_HAS_BYTE_PRODUCT
// sum + the products of 16-bit numbers, two neighbours in each lane.
template <class V, class V16>
HWY_INLINE V add_word_pairs(V sum, V16 a, V16 b) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::DFromV<V> d;
  V unused = hn::Zero(d);
  return hn::ReorderWidenMulAccumulate(d, a, b, sum, unused);
}

// The sums of two neighbouring products each, u8 by i8, saturated to i16.
template <class V16, class V>
HWY_INLINE V16 multiply_byte_pairs(V unsigned_bytes, V signed_bytes) {
#if CAMSHAFT_TARGET_IS_AVX512
  return {_mm512_maddubs_epi16(unsigned_bytes.raw, signed_bytes.raw)};
#else
  return {_mm256_maddubs_epi16(unsigned_bytes.raw, signed_bytes.raw)};
#endif
}

// sum + the four products of each quad, u8 by i8. As text, because this Highway has no target with the instruction: who
// calls it has asked the machine.
template <class V>
HWY_INLINE V add_byte_dots(V sum, V unsigned_quads, V signed_quads) {
#if CAMSHAFT_TARGET_IS_AVX512
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(unsigned_quads.raw), "v"(signed_quads.raw));
#else
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(unsigned_quads.raw), "x"(signed_quads.raw));
#endif
  return sum;
}

// The same with weights that are read where they lie.
template <class V>
HWY_INLINE V add_byte_dots(V sum, V unsigned_quads, const int32_t* signed_quads) {
  const auto& quads = *reinterpret_cast<const char(*)[sizeof(V)]>(signed_quads);
#if CAMSHAFT_TARGET_IS_AVX512
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(unsigned_quads.raw), "m"(quads));
#else
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(unsigned_quads.raw), "m"(quads));
#endif
  return sum;
}

// To the nearest integer, to the even one of two; what is beyond i32 becomes the lowest. (Highway's own looks for
// that.)
template <class D, class V>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> round_to_integers(D, V x) {
#if CAMSHAFT_TARGET_IS_AVX512
  return {_mm512_cvtps_epi32(x.raw)};
#else
  return {_mm256_cvtps_epi32(x.raw)};
#endif
}

// Saturated to u8 or i8: 128 bits of `low` and of `high` in turn. (This Highway has it for u8 alone, in an order of its
// own for each instruction set.)
template <class D, class V16>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> pack_to_bytes(D, V16 low, V16 high) {
  constexpr bool is_signed = hwy::IsSigned<hwy::HWY_NAMESPACE::TFromD<D>>();
#if CAMSHAFT_TARGET_IS_AVX512
  return {is_signed ? _mm512_packs_epi16(low.raw, high.raw) : _mm512_packus_epi16(low.raw, high.raw)};
#else
  return {is_signed ? _mm256_packs_epi16(low.raw, high.raw) : _mm256_packus_epi16(low.raw, high.raw)};
#endif
}
#endif

#if CAMSHAFT_TARGET_IS_AVX512
// The bytes of a table of 256 by the bytes of `indices`; for machines that have_byte_tables() alone.
template <class V>
HWY_INLINE V look_up_256(V first, V second, V third, V fourth, V indices) {
  V low = indices, high = indices;
  __asm__("vpermi2b %2, %1, %0" : "+v"(low.raw) : "v"(first.raw), "v"(second.raw));
  __asm__("vpermi2b %2, %1, %0" : "+v"(high.raw) : "v"(third.raw), "v"(fourth.raw));
  return V{_mm512_mask_blend_epi8(_mm512_movepi8_mask(indices.raw), low.raw, high.raw)};
}

// The first half of a vector, twice.
HWY_INLINE hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<float>> load_half_twice(const float* from) {
  return {_mm512_broadcast_f32x8(_mm256_loadu_ps(from))};
}

// x times 2^n, n a whole number.
template <class V>
HWY_INLINE V times_power_of_two(V x, V n) {
  return V{_mm512_scalef_ps(x.raw, n.raw)};
}

// The elements of `low` and `high` by the last five bits of the indices. (Highway's look-up wants the others to be 0.)
template <class V>
HWY_INLINE V look_up_32(V low, V high, V indices) {
  return V{_mm512_permutex2var_epi32(low.raw, indices.raw, high.raw)};
}
template <class V, class Indices>
HWY_INLINE V look_up_32_floats(V low, V high, Indices indices) {
  return V{_mm512_permutex2var_ps(low.raw, indices.raw, high.raw)};
}

// The products of bf16, for machines that have_bf16_pairs() alone; as text, so that no target of its own is compiled
// for the sake of two instructions.
template <class V>
HWY_INLINE V multiply_add_pairs(V a, V b, V sum) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}

// The pairs of 32 floats that follow each other: `low` has the first 16.
template <class V>
HWY_INLINE V round_to_pairs(V low, V high) {
  V pairs;
  __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(pairs.raw) : "v"(low.raw), "v"(high.raw));
  return pairs;
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif

// Weights of few bits as operands of the tensor cores: what compile/constants/step_fragments.h has laid out becomes the
// difference of steps and zero points, which f16 and bf16 have exactly. Steps get the exponent of a number whose lowest
// bits count ones, and this number is taken off with the zero point: two or three instructions for a pair of weights.

__device__ __forceinline__ u32 both_halves(u32 half) { return half | half << 16; }

/// T: f16 or bf16.
template <class T, int BITS>
struct StepFragments;

/// The zero points of the columns g and g + 8 of a tile that a lane has elements of, as the steps' pairs want them.
struct StepZeros {
  u32 of_first, of_second;
};

template <int BITS>
struct StepFragments<f16, BITS> {
  static constexpr int matrices = 16 / BITS;  ///< of a chunk: 16 of k each

  // Steps of 4 bits lie in the second quarter of a half, too: these count sixteenths of 1024, and from 64.
  static __device__ __forceinline__ StepZeros zeros(u32 first, u32 second) {
    return {both_halves(0x6400 + first), BITS == 4 ? both_halves(0xd400 + (second << 4)) : both_halves(0x6400 + second)};
  }
  /// That steps get: of 1024.
  static __device__ __forceinline__ u32 exponent() { return in_register(0x64006400); }
  /// Matrix `i` of the chunk whose words of this lane are `word`.
  static __device__ __forceinline__ void get(const u32 (&word)[4], int i, const StepZeros& zeros, u32 exponent,
                                             u32 (&a)[4]) {
    constexpr u32 sixteenth = 0x2c002c00;  // 1 / 16
    if constexpr (BITS == 4) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const u32 w = word[i] >> (8 * half);
        a[2 * half] = f16_pair_sub(masked_or(w, 0x000f000f, exponent), zeros.of_first);
        a[2 * half + 1] = f16_pair_fma(masked_or(w, 0x00f000f0, exponent), sixteenth, zeros.of_second);
      }
    } else if constexpr (BITS == 8) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const u32 w = word[2 * i + half];
        a[2 * half] = f16_pair_sub(__byte_perm(w, exponent, 0x5150), zeros.of_first);
        a[2 * half + 1] = f16_pair_sub(__byte_perm(w, exponent, 0x5352), zeros.of_second);
      }
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 w = word[i / 2] >> (2 * (4 * (i % 2) + e));
        a[e] = f16_pair_sub(masked_or(w, 0x00030003, exponent), e % 2 == 0 ? zeros.of_first : zeros.of_second);
      }
    }
  }
};

#if __CUDA_ARCH__ >= 800
template <int BITS>
struct StepFragments<bf16, BITS> {
  static constexpr int matrices = 16 / BITS;

  // bf16 has 7 bits behind the first: bytes become f32, of which the upper halves are exact.
  static __device__ __forceinline__ StepZeros zeros(u32 first, u32 second) {
    if (BITS == 8) return {0x4b000000 + first, 0x4b000000 + second};
    return {both_halves(0xc300 + first), both_halves(0xc300 + second)};
  }
  static __device__ __forceinline__ u32 exponent() { return in_register(0x43004300); }  // of 128
  static __device__ __forceinline__ void get(const u32 (&word)[4], int i, const StepZeros& zeros, u32 exponent,
                                             u32 (&a)[4]) {
    constexpr u32 one = 0x3f803f80;
    if constexpr (BITS == 8) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 w = word[2 * i + e / 2], first = e % 2 * 2;
        const f32 zero = __uint_as_float(e % 2 == 0 ? zeros.of_first : zeros.of_second);
        const f32 low = __uint_as_float(__byte_perm(w, 0x4b000000, 0x7540 + first)) - zero;
        const f32 high = __uint_as_float(__byte_perm(w, 0x4b000000, 0x7541 + first)) - zero;
        a[e] = __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
      }
    } else {
      constexpr u32 mask = BITS == 4 ? 0x000f000f : 0x00030003;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 w = BITS == 4 ? word[i] >> (4 * e) : word[i / 2] >> (2 * (4 * (i % 2) + e));
        a[e] = bf16_pair_fma(masked_or(w, mask, exponent), one, e % 2 == 0 ? zeros.of_first : zeros.of_second);
      }
    }
  }
};
#endif

__device__ __forceinline__ void multiply_steps(f16, f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  mma_f16(d, a, b);
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void multiply_steps(bf16, f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  mma_bf16(d, a, b);
}
#endif

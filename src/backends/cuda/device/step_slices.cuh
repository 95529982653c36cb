// Slices of B that are made of weights of few bits (compile/constants/step_fragments.h): a lane has read its steps of the
// next slice while the last one is multiplied, and makes floats of T of them in shared memory, where a slice of floats
// would else be copied to. Weights are rounded to T as those of a product of floats are.

/// Pairs of whole numbers, in T, times their scale.
template <class T, class SCALE>
struct ScaledPairs;
template <>
struct ScaledPairs<f16, f16> {
  u32 scale;
  __device__ __forceinline__ explicit ScaledPairs(f16 s) : scale(both_halves(s.bits)) {}
  __device__ __forceinline__ u32 get(u32 pair) const { return f16_pair_mul(pair, scale); }
};
template <>
struct ScaledPairs<f16, f32> {
  f32 scale;
  __device__ __forceinline__ explicit ScaledPairs(f32 s) : scale(s) {}
  __device__ __forceinline__ u32 get(u32 pair) const {
    return f32_to_f16_pair(f16_to_f32(u16(pair)) * scale, f16_to_f32(u16(pair >> 16)) * scale);
  }
};
#if __CUDA_ARCH__ >= 800
template <>
struct ScaledPairs<bf16, f32> {
  f32 scale;
  __device__ __forceinline__ explicit ScaledPairs(f32 s) : scale(s) {}
  __device__ __forceinline__ u32 get(u32 pair) const {
    return f32_to_bf16_pair(__uint_as_float(pair << 16) * scale, __uint_as_float(pair & 0xffff0000) * scale);
  }
};
#endif

/// SHARED: matrices of a slice (16 of k each) that share a scale. HAS_ZEROS: zero points are one for each block and
/// column. ALIGNED: see Slices, which copies A.
template <class TILE, class SCALE, int BITS, int SHARED, bool HAS_ZEROS, bool ALIGNED>
struct StepSlices : Slices<TILE, NoWindow, true, ALIGNED> {
  typedef Slices<TILE, NoWindow, true, ALIGNED> Base;
  typedef typename TILE::T T;
  static constexpr u32 matrices = TILE::bk / 16, of_chunk = 16 / BITS;  ///< of a slice; of 16 bytes of a lane
  static constexpr u32 words = matrices * BITS / 4;                     ///< of a lane and 16 columns
  static constexpr u32 scales = matrices / SHARED;
  static constexpr u32 warps = TILE::threads / 32, tiles = TILE::n / 16, tiles_of_warp = (tiles + warps - 1) / warps;

  struct Steps {
    u32 word[words];
    SCALE scale[scales][2];
    u8 zero[scales][2];
  };
  Steps next[tiles_of_warp];  ///< of the slice that is copied next

  using Base::column0;
  using Base::p;

  __device__ __forceinline__ StepSlices(const ContractParameters& parameters, unsigned char* memory)
      : Base(parameters, memory) {}

  __device__ __forceinline__ void move_to(u32 z, u32 tile, u32 first_k_tile) {
    Base::move_to(z, tile, first_k_tile);
    read(first_k_tile);
  }

  /// The steps of a slice, on their way into registers.
  __device__ __forceinline__ void read(u32 k_tile) {
    const u32 lane = threadIdx.x % 32, first = k_tile * matrices;
#pragma unroll
    for (u32 i = 0; i < tiles_of_warp; ++i) {
      const u32 in_block = threadIdx.x / 32 + i * warps, tile = column0 / 16 + in_block;
      const bool exists = in_block < tiles && tile * 16 < p.n;
#pragma unroll
      for (u32 w = 0; w < words; w += words < 4 ? words : 4) {
        const u32 matrix = first + w * 4 / BITS, chunk = matrix / of_chunk;
        const u8* from = static_cast<const u8*>(p.b) + (u64(tile) * p.step_chunks + chunk) * 512 + lane * 16 +
                         matrix % of_chunk * BITS;
        const bool is_there = exists && chunk < p.step_chunks;
        if constexpr (words < 4) {
          u32 some[words] = {};
          if (is_there) load(reinterpret_cast<const u32*>(from), some);
#pragma unroll
          for (u32 e = 0; e < words; ++e) next[i].word[e] = some[e];
        } else {
          u32 some[4] = {};
          if (is_there) load_once(from, some);
#pragma unroll
          for (u32 e = 0; e < 4; ++e) next[i].word[w + e] = some[e];
        }
      }
      // Nothing here may look at what has been asked for: it would wait for it. Where there are no steps, weights are 0:
      // of what is made of them there are no results, or no elements of A.
      const bool is_there = exists && first / of_chunk < p.step_chunks;
#pragma unroll
      for (u32 q = 0; q < scales; ++q) {
        SCALE scale[2] = {};
        u8 zero[2] = {};
        if (is_there) {
          const u32 block = divide(first + q * SHARED, p.matrices_of_block);
          const u64 at = (u64(tile) * p.step_blocks + block) * 16 + lane / 4 * 2;
          // Of the last chunks of a slice there may be no blocks.
          if (of_chunk >= matrices || block < p.step_blocks) {
            load(static_cast<const SCALE*>(p.scales) + at, scale);
            if (HAS_ZEROS) load(static_cast<const u8*>(p.zeros) + at, zero);
          }
        }
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          next[i].scale[q][e] = scale[e];
          if (HAS_ZEROS) next[i].zero[q][e] = zero[e];
        }
      }
    }
  }

  __device__ __forceinline__ void copy_b(unsigned char* to, u32 k_tile) {
#pragma unroll
    for (u32 i = 0; i < tiles_of_warp; ++i) {
      const u32 in_block = threadIdx.x / 32 + i * warps;
      if (tiles % warps != 0 && in_block >= tiles) break;
      make(to, in_block * 16, next[i]);
    }
    read(k_tile + 1);
  }

 private:
  /// 16 columns of the slice from `column` of the block on.
  __device__ __forceinline__ void make(unsigned char* to, u32 column, const Steps& steps) const {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 q = 0; q < scales; ++q) {
      const u32 zero[2] = {HAS_ZEROS ? steps.zero[q][0] : p.step_zero, HAS_ZEROS ? steps.zero[q][1] : p.step_zero};
#pragma unroll
      for (u32 m = q * SHARED; m < (q + 1) * SHARED; ++m) {
        if constexpr (sizeof(T) == 2) {
          const ScaledPairs<T, SCALE> scaled[2] = {ScaledPairs<T, SCALE>(steps.scale[q][0]),
                                                   ScaledPairs<T, SCALE>(steps.scale[q][1])};
          typedef StepFragments<T, BITS> Fragments;
          u32 word[4] = {}, a[4];  // those of a whole chunk, or of what the slice has of it
          constexpr u32 held = words < 4 ? words : 4;
#pragma unroll
          for (u32 e = 0; e < held; ++e) word[e] = steps.word[m / of_chunk * 4 % words + e];
          Fragments::get(word, int(m % of_chunk), Fragments::zeros(zero[0], zero[1]), a);
#pragma unroll
          for (u32 e = 0; e < 4; ++e) {
            const u32 row = TILE::place_of(column + lane / 4 + e % 2 * 8);
            const u32 pair[1] = {scaled[e % 2].get(a[e])};
            store(reinterpret_cast<u32*>(to + TILE::swizzled(row, 2 * m + e / 2) + lane % 4 * 4), pair);
          }
        } else {
#pragma unroll
          for (u32 e = 0; e < 4; ++e) {
            const u32 row = TILE::place_of(column + lane / 4 + e % 2 * 8);
            const f32 base = 8388608.0f + f32(zero[e % 2]), scale = widen(steps.scale[q][e % 2]);
            f32 pair[2];
#pragma unroll
            for (u32 second = 0; second < 2; ++second) {
              constexpr u32 in_word = BITS == 2 ? 2 : 1, mask = (1u << BITS) - 1;
              const u32 step = BITS == 8 ? steps.word[2 * m + e / 2] >> (8 * (2 * (e % 2) + second))
                                         : steps.word[m / in_word] >> (BITS * (4 * (m % in_word) + e) + 16 * second);
              pair[second] = (__uint_as_float(0x4b000000 | (step & mask)) - base) * scale;
            }
            store(reinterpret_cast<f32*>(to + TILE::swizzled(row, 4 * m + e / 2 * 2 + lane % 4 / 2) + lane % 2 * 8), pair);
          }
        }
      }
    }
  }
};

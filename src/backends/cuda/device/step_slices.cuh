// Slices of B that are made of weights of few bits (compile/constants/step_fragments.h). Steps pass through a ring in
// shared memory that is as deep as that of the slices, and behind it; of those that have come a lane makes floats of T
// where a slice of floats would else be copied to, as far ahead. (Held in registers one slice ahead, they had each slice
// wait for memory: 32 rows by 8,192 columns of 2,048 took 24 us on an H200.) Weights are rounded to T as those of a
// product of floats are.

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

  /// What a lane has of a slice and 16 columns in the ring: its steps, and of its two columns scales and zero points,
  /// the latter within four bytes that begin at a multiple of 4. Those of all lanes of a warp lie beside each other.
  static constexpr u32 scale_bytes = 2 * sizeof(SCALE), zero_bytes = HAS_ZEROS ? 4 : 0;
  static constexpr u32 scales_at = 32 * words * 4, zeros_at = scales_at + 32 * scales * scale_bytes,
                       tile_bytes = zeros_at + 32 * scales * zero_bytes,  ///< of 16 columns
                       slice_bytes = tile_bytes * tiles;

  unsigned char* ring;
  u32 slots, ahead, end, asked, made;  ///< of the ring; slices; the slots of those that come next

  using Base::column0;
  using Base::p;

  __device__ __forceinline__ StepSlices(const ContractParameters& parameters, unsigned char* memory)
      : Base(parameters, memory),
        slots(p.k_tiles_per_split < TILE::stages ? p.k_tiles_per_split : TILE::stages) {
    ring = memory + slots * TILE::stage_bytes;
  }

  __device__ __forceinline__ void begin(u32 first, u32 end_slice, u32 slices_ahead) {
    ahead = slices_ahead;
    end = end_slice;
    asked = made = 0;
#pragma unroll 1
    for (u32 s = 0; s < ahead && first + s < end; ++s) ask(first + s);
    copy_async_commit();
    copy_async_wait<0>();
  }

  /// Steps that were asked for `ahead` calls before have come, as slices of A that were have: each thread reads its own
  /// ones alone.
  __device__ __forceinline__ void copy_b(unsigned char* to, u32 k_tile) {
    const unsigned char* const slice = ring + made * slice_bytes;
#pragma unroll
    for (u32 i = 0; i < tiles_of_warp; ++i) {
      const u32 in_block = threadIdx.x / 32 + i * warps;
      if (tiles % warps != 0 && in_block >= tiles) break;
      make(to, in_block * 16, slice + in_block * tile_bytes);
    }
    made = made + 1 == slots ? 0 : made + 1;
    if (k_tile + ahead < end) ask(k_tile + ahead);
  }

 private:
  /// The steps of a slice, on their way into the ring.
  __device__ __forceinline__ void ask(u32 k_tile) {
    const u32 lane = threadIdx.x % 32, first = k_tile * matrices;
    const u32 slice = shared_address(ring) + asked * slice_bytes;
    asked = asked + 1 == slots ? 0 : asked + 1;
#pragma unroll
    for (u32 i = 0; i < tiles_of_warp; ++i) {
      const u32 in_block = threadIdx.x / 32 + i * warps, tile = column0 / 16 + in_block;
      if (tiles % warps != 0 && in_block >= tiles) break;
      const u32 to = slice + in_block * tile_bytes;
      const bool exists = tile * 16 < p.n;
#pragma unroll
      for (u32 w = 0; w < words; w += words < 4 ? words : 4) {
        const u32 matrix = first + w * 4 / BITS, chunk = matrix / of_chunk;
        const u8* from = static_cast<const u8*>(p.b) + (u64(tile) * p.step_chunks + chunk) * 512 + lane * 16 +
                         matrix % of_chunk * BITS;
        const bool is_there = exists && chunk < p.step_chunks;
        if constexpr (words < 4)
          copy_async_few_or_zero<words * 4>(to + lane * words * 4, is_there ? from : p.b, is_there);
        else
          copy_async_16_or_zero(to + w / 4 * 512 + lane * 16, is_there ? from : p.b, is_there);
      }
      // Where there are no steps, weights are 0: of what is made of them there are no results, or no elements of A.
      const bool is_there = exists && first / of_chunk < p.step_chunks;
#pragma unroll
      for (u32 q = 0; q < scales; ++q) {
        const u32 block = divide(first + q * SHARED, p.matrices_of_block);
        const u64 at = (u64(tile) * p.step_blocks + block) * 16 + lane / 4 * 2;
        // Of the last chunks of a slice there may be no blocks.
        const bool has_block = is_there && (of_chunk >= matrices || block < p.step_blocks);
        copy_async_few_or_zero<scale_bytes>(to + scales_at + (q * 32 + lane) * scale_bytes,
                                            static_cast<const SCALE*>(p.scales) + (has_block ? at : 0), has_block);
        if constexpr (HAS_ZEROS)
          copy_async_few_or_zero<4>(to + zeros_at + (q * 32 + lane) * 4,
                                    static_cast<const u8*>(p.zeros) + (has_block ? at & ~u64(3) : 0), has_block);
      }
    }
  }

  /// 16 columns of the slice from `column` of the block on; `steps` is where the warp's are in the ring.
  __device__ __forceinline__ void make(unsigned char* to, u32 column, const unsigned char* steps) const {
    const u32 lane = threadIdx.x % 32;
    u32 exponent = 0;
    if constexpr (sizeof(T) == 2) exponent = StepFragments<T, BITS>::exponent();
    u32 all[words];
#pragma unroll
    for (u32 w = 0; w < words; w += words < 4 ? words : 4) {
      u32 some[words < 4 ? words : 4];
      load(reinterpret_cast<const u32*>(steps + (words < 4 ? lane * words * 4 : w / 4 * 512 + lane * 16)), some);
#pragma unroll
      for (u32 e = 0; e < (words < 4 ? words : 4); ++e) all[w + e] = some[e];
    }
#pragma unroll
    for (u32 q = 0; q < scales; ++q) {
      SCALE scale_of[2];
      load(reinterpret_cast<const SCALE*>(steps + scales_at + (q * 32 + lane) * scale_bytes), scale_of);
      u32 zero[2] = {p.step_zero, p.step_zero};
      if constexpr (HAS_ZEROS) {
        u8 two[2];  // the lane's number over 4 is even, or they are the second two
        load(steps + zeros_at + (q * 32 + lane) * 4 + lane / 4 % 2 * 2, two);
        zero[0] = two[0];
        zero[1] = two[1];
      }
#pragma unroll
      for (u32 m = q * SHARED; m < (q + 1) * SHARED; ++m) {
        if constexpr (sizeof(T) == 2) {
          const ScaledPairs<T, SCALE> scaled[2] = {ScaledPairs<T, SCALE>(scale_of[0]),
                                                   ScaledPairs<T, SCALE>(scale_of[1])};
          typedef StepFragments<T, BITS> Fragments;
          u32 word[4] = {}, a[4];  // those of a whole chunk, or of what the slice has of it
          constexpr u32 held = words < 4 ? words : 4;
#pragma unroll
          for (u32 e = 0; e < held; ++e) word[e] = all[m / of_chunk * 4 % words + e];
          Fragments::get(word, int(m % of_chunk), Fragments::zeros(zero[0], zero[1]), exponent, a);
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
            const f32 base = 8388608.0f + f32(zero[e % 2]), scale = widen(scale_of[e % 2]);
            f32 pair[2];
#pragma unroll
            for (u32 second = 0; second < 2; ++second) {
              constexpr u32 in_word = BITS == 2 ? 2 : 1, mask = (1u << BITS) - 1;
              const u32 step = BITS == 8 ? all[2 * m + e / 2] >> (8 * (2 * (e % 2) + second))
                                         : all[m / in_word] >> (BITS * (4 * (m % in_word) + e) + 16 * second);
              pair[second] = (__uint_as_float(0x4b000000 | (step & mask)) - base) * scale;
            }
            store(reinterpret_cast<f32*>(to + TILE::swizzled(row, 4 * m + e / 2 * 2 + lane % 4 / 2) + lane % 2 * 8), pair);
          }
        }
      }
    }
  }
};

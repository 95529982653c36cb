// Weights of few bits as a matrix of floats, of which a product can be made by whatever makes products.

/// Where zero points are: one for all, one a block and column that is a step, or a real one.
enum class Zeros { one, bytes, floats };

/// A warp takes a chunk of 16 columns (compile/constants/step_fragments.h).
template <class T, class SCALE, int BITS, Zeros ZEROS>
__device__ __forceinline__ void expand_steps(const ExpandParameters& p, u32 all_chunks) {
  take_turn();
  constexpr u32 matrices = 16 / BITS, mask = (1u << BITS) - 1;
  const u32 lane = threadIdx.x % 32;
  for (u32 at = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; at < all_chunks; at += gridDim.x * (blockDim.x / 32)) {
    const u32 tile = divide(at, p.chunks_of_tile), chunk = at - tile * p.chunks_of_tile.value;
    u32 word[4];
    load_once(static_cast<const u8*>(p.steps) + u64(at) * 512 + lane * 16, word);
#pragma unroll
    for (u32 i = 0; i < matrices; ++i) {
      const u32 matrix = chunk * matrices + i, block = divide(matrix, p.matrices_of_block);
#pragma unroll
      for (u32 upper = 0; upper < 2; ++upper) {
        const u32 column = tile * 16 + lane / 4 + upper * 8;
        const u64 parameter = (u64(tile) * p.blocks + block) * 16 + lane / 4 * 2 + upper;
        const f32 scale = widen(static_cast<const SCALE*>(p.scales)[parameter]);
        const f32 zero = ZEROS == Zeros::one     ? p.zero
                         : ZEROS == Zeros::bytes ? f32(static_cast<const u8*>(p.zeros)[parameter])
                                                 : static_cast<const f32*>(p.zeros)[parameter];
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
          const u32 k = matrix * 16 + half * 8 + lane % 4 * 2, fragment = upper + 2 * half;
          T pair[2];
#pragma unroll
          for (u32 second = 0; second < 2; ++second) {
            const u32 in_word = BITS == 8 ? 1 : 4 / BITS;  // matrices
            const u32 step = BITS == 8 ? word[(2 * i + half) % 4] >> (8 * (2 * upper + second))
                                       : word[i / in_word % 4] >> (BITS * (4 * (i % in_word) + fragment) + 16 * second);
            // Moved up as zero points of the same type are; real ones are not.
            const f32 moved = f32(step & mask) - (ZEROS == Zeros::floats ? p.moved : 0.0f);
            pair[second] = Narrow<T>::from(k + second < p.k ? (moved - zero) * scale : 0.0f);
          }
          // A row is a whole number of pairs.
          if (column < p.n && k < p.pitch) store(static_cast<T*>(p.out) + u64(column) * p.pitch + k, pair);
        }
      }
    }
  }
}

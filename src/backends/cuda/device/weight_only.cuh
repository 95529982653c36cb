// Products of few rows with weights of few bits. What they take is the time that the weights come from memory in, so
// that each is read once, by 16 bytes a lane, and stays narrow until it is in a register.
//
// The weights are the first operand of the tensor cores, with 16 columns of the result a tile, and the rows of X the
// second one, 8 to a tile: one row costs as much as eight, and the cores are far from busy. Blocks of weights are
// multiplied as whole numbers; their scales come behind that, in f32.

/// How rows of X lie in shared memory: as they are.
template <class X>
struct RowParts {
  typedef X T;
  static constexpr u32 parts = 1;
  static __device__ __forceinline__ void split(const X (&x)[8], X (&part)[1][8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) part[0][i] = x[i];
  }
};
/// f32 is the sum of three bf16, each of which has the next 8 bits: exact but for what is below 2^-133. They are rows of
/// their own, of which there is room for eight anyway.
template <>
struct RowParts<f32> {
  typedef bf16 T;
  static constexpr u32 parts = 3;
  static __device__ __forceinline__ void split(const f32 (&x)[8], bf16 (&part)[3][8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      f32 rest = x[i];
      const bool is_finite = (__float_as_uint(rest) & 0x7f800000) != 0x7f800000;
      if (rest != rest) rest = __uint_as_float(0x7fc00000);
#pragma unroll
      for (int j = 0; j < 3; ++j) {
        const u32 bits = __float_as_uint(rest) & 0xffff0000;
        part[j][i].bits = u16(bits >> 16);
        rest = is_finite ? rest - __uint_as_float(bits) : 0.0f;
      }
    }
  }
};

/// Rows: where those of X come from. GROUP: matrices of a chunk that share a scale. DENSE: each of these groups has a scale of its own. ONE_BLOCK: all of a
/// column share it, which then comes behind the sums. TILES: of 8 rows of X, or of their parts. DEPTH: chunks that a warp
/// has on their way.
template <class X, class Rows, class SCALE, int BITS, int GROUP, bool DENSE, bool ONE_BLOCK, bool HAS_ZEROS, int TILES, int WARPS,
          int DEPTH, class Finish>
struct WeightOnly {
  typedef RowParts<X> Parts;
  typedef typename Parts::T T;
  typedef StepFragments<T, BITS> Fragments;
  typedef WeightOnlyParameters Parameters;
  static constexpr u32 threads = 32 * WARPS, columns = 16, matrices = Fragments::matrices, chunk = 16 * matrices;
  static constexpr u32 groups = ONE_BLOCK ? 1 : matrices / GROUP;
  typedef RowSums<16, TILES, WARPS, Parts::parts, Finish> Ends;

  struct StepChunk {
    u32 word[4];
    SCALE scale[groups][2];
    u8 zero[groups][2];
  };

  /// Where the lane's part of the warp's next chunk lies: what follows is at distances that the compiler knows.
  struct Places {
    const u8* steps;
    const SCALE* scales;  ///< of DENSE groups, and their zero points
    const u8* zeros;
    u32 chunk;

    __device__ __forceinline__ Places(const Parameters& p, u32 c) : chunk(c) {
      const u32 lane = threadIdx.x % 32, tile = blockIdx.x;
      const u64 at = (u64(tile) * p.blocks + c * groups) * 16 + lane / 4 * 2;
      steps = static_cast<const u8*>(p.steps) + (u64(tile) * p.chunks + c) * 512 + lane * 16;
      scales = static_cast<const SCALE*>(p.scales) + at;
      zeros = static_cast<const u8*>(p.zeros) + at;
    }
    __device__ __forceinline__ void advance() {
      constexpr u32 chunks = WARPS * DEPTH;
      steps += chunks * 512;
      scales += chunks * groups * 16;
      zeros += chunks * groups * 16;
      chunk += chunks;
    }
  };

  /// The warp's chunk of number `ahead`, from the next one on.
  static __device__ __forceinline__ void load_chunk(const Parameters& p, const Places& places, u32 ahead, StepChunk& to) {
    load_once(places.steps + ahead * (WARPS * 512), to.word);
    // Nothing here may look at what has been asked for: it would wait for it.
#pragma unroll
    for (u32 q = 0; q < groups; ++q) {
      if (DENSE && !ONE_BLOCK) {
        const u32 at = (ahead * WARPS * groups + q) * 16;
        load(places.scales + at, to.scale[q]);
        if (HAS_ZEROS) load(places.zeros + at, to.zero[q]);
        continue;
      }
      const u32 c = places.chunk + ahead * WARPS;
      const u32 block = ONE_BLOCK ? 0 : divide(c * matrices + q * GROUP, p.matrices_of_block);
      const u64 at = (u64(blockIdx.x) * p.blocks + block) * 16 + threadIdx.x % 32 / 4 * 2;
      if (!ONE_BLOCK) load(static_cast<const SCALE*>(p.scales) + at, to.scale[q]);
      if (HAS_ZEROS) load(static_cast<const u8*>(p.zeros) + at, to.zero[q]);
    }
  }

  /// So many rows of X from first_row on, `count` elements of each from k0 on, a row (and part) every `pitch` elements.
  static __device__ __forceinline__ void copy_rows(const Parameters& p, T* to, u32 first_row, u32 rows, u32 k0, u32 count,
                                                   u32 pitch) {
#pragma unroll 1
    for (u32 r = 0; r < rows; ++r) {
#pragma unroll 1
      for (u32 i = threadIdx.x * 8; i < count; i += threads * 8) {
        X x[8];
        Rows::get(p, first_row + r, k0 + i, x);
        T part[Parts::parts][8];
        Parts::split(x, part);
#pragma unroll
        for (u32 j = 0; j < Parts::parts; ++j) store(to + u64(r * Parts::parts + j) * pitch + i, part[j]);
      }
    }
  }

  /// Adds a chunk's products to the sums; `rows` is where this lane's rows of the matrices of X begin.
  static __device__ __forceinline__ void multiply(f32 (&sum)[TILES][4], const StepChunk& c, const StepZeros& one_zero,
                                                  u32 exponent, const u32 (&rows)[TILES]) {
    u32 b[TILES][matrices][2];
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
      for (u32 i = 0; i < matrices; i += 2) {
        u32 four[4];
        load_matrix_x4(four, rows[t] + i * 32);
        b[t][i][0] = four[0], b[t][i][1] = four[1], b[t][i + 1][0] = four[2], b[t][i + 1][1] = four[3];
      }
#pragma unroll
    for (u32 q = 0; q < groups; ++q) {
      const StepZeros zeros = HAS_ZEROS ? Fragments::zeros(c.zero[q][0], c.zero[q][1]) : one_zero;
      f32 part[TILES][4] = {};
#pragma unroll
      for (u32 i = q * (matrices / groups); i < (q + 1) * (matrices / groups); ++i) {
        u32 a[4];
        Fragments::get(c.word, int(i), zeros, exponent, a);
#pragma unroll
        for (int t = 0; t < TILES; ++t) multiply_steps(T{}, ONE_BLOCK ? sum[t] : part[t], a, b[t][i]);
      }
      if constexpr (!ONE_BLOCK) {
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[t][e] = fmaf(part[t][e], widen(c.scale[q][e / 2]), sum[t][e]);
      }
    }
  }

  static __device__ __forceinline__ void run(const Parameters& p) {
    DYNAMIC_SHARED(shared);
    Ends::begin(p, shared);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 first = blockIdx.y * p.chunks_of_split;
    const u32 end = first + p.chunks_of_split < p.chunks ? first + p.chunks_of_split : p.chunks;
    const u32 first_row = blockIdx.z * p.rows, rows = p.m - first_row < p.rows ? p.m - first_row : p.rows;
    // Weights are on their way before the kernel before has ended, for nobody writes them.
    Places places(p, first + warp);
    StepChunk ring[DEPTH];
#pragma unroll
    for (u32 d = 0; d < DEPTH; ++d)
      if (places.chunk + d * WARPS < end) load_chunk(p, places, d, ring[d]);
    const u32 exponent = Fragments::exponent();
    take_turn();
    typename Finish::OfBlock of_block;
    of_block.load(p, first_row, first_row + rows);
    StepZeros zeros = Fragments::zeros(p.zero, p.zero);
    zeros.of_first = in_register(zeros.of_first);
    zeros.of_second = in_register(zeros.of_second);
    const u32 pitch = p.slab * chunk + 8, all = rows * Parts::parts;
    T* staged = reinterpret_cast<T*>(shared);
    u32 of_lane[TILES];
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      const u32 row = t * 8 + lane % 8;  // those that are not there do not count: others stand in their place
      of_lane[t] = in_register(shared_address(shared) +
                               ((row < all ? row : all - 1) * pitch + lane / 8 * 8) * u32(sizeof(T)));
    }
    typename Ends::Sums sums = {};
    f32(&sum)[TILES][4] = sums[0];
#pragma unroll 1
    for (u32 slab = first; slab < end; slab += p.slab) {
      const u32 slab_end = slab + p.slab < end ? slab + p.slab : end;
      if (slab > first) __syncthreads();
      copy_rows(p, staged, first_row, rows, slab * chunk, (slab_end - slab) * chunk, pitch);
      __syncthreads();
      constexpr u32 chunk_bytes = chunk * sizeof(T);
#pragma unroll 1
      for (u32 x = warp * chunk_bytes; places.chunk < slab_end; x += WARPS * DEPTH * chunk_bytes) {
#pragma unroll
        for (u32 d = 0; d < DEPTH; ++d) {
          if (places.chunk + d * WARPS >= slab_end) continue;
          u32 at[TILES];
#pragma unroll
          for (int t = 0; t < TILES; ++t) at[t] = of_lane[t] + x + d * (WARPS * chunk_bytes);
          multiply(sum, ring[d], zeros, exponent, at);
          if (places.chunk + (d + DEPTH) * WARPS < end) load_chunk(p, places, d + DEPTH, ring[d]);
        }
        places.advance();
      }
    }
    if constexpr (ONE_BLOCK) {
      SCALE scale[2];
      load(static_cast<const SCALE*>(p.scales) + u64(blockIdx.x) * 16 + lane / 4 * 2, scale);
#pragma unroll
      for (int t = 0; t < TILES; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[t][e] *= widen(scale[e / 2]);
    }
    __syncthreads();
    Ends::finish(p, sums, shared, first_row, rows, of_block);
  }
};

// Matrix products and convolutions (implicit GEMM). A block computes a tile of BM × BN: slices of A and B, 128 bytes of
// k a row, pass through a ring of STAGES in shared memory; what comes after the sum is Finish, on 8 columns at a time.
// Rows of a slice are swizzled by 16 bytes (chunk ^ row mod 8), so that neither copies nor matrix loads meet in a bank.

__device__ __forceinline__ i64 offset_of_row(const RowMap& map, u32 row) {
  i64 offset = 0;
  u32 rest = row;
#pragma unroll 1
  for (u32 d = map.rank; d-- > 0;) {
    const u32 quotient = d == 0 ? 0 : map.size[d].quotient(rest);
    offset += i64(rest - quotient * map.size[d].value) * map.stride[d];
    rest = quotient;
  }
  return offset;
}

constexpr int columns_at_once = 8;

/// How an operand is laid over the result, as far as the compiler knew: one element, or one a column, for all rows; one
/// for each of the result's, in rows of its own pitch; anything else that broadcasts.
enum class Layout { columns, dense, general };

/// 8 columns of an operand; those from `count` on are not read.
template <Layout layout, class T>
__device__ __forceinline__ void load_columns(const EpilogueOperand& operand, u32 row, u32 column, u32 count,
                                             T (&to)[columns_at_once]) {
  const T* from = static_cast<const T*>(operand.data);
  if (layout == Layout::dense) from += i64(row) * operand.row_stride;
  if (layout == Layout::general) from += offset_of_row(operand.rows, row);
  if (operand.vector && count == columns_at_once) {
    load(from + column, to);
  } else {
    for (u32 i = 0; i < columns_at_once; ++i) to[i] = i < count ? from[(column + i) * operand.column_stride] : T{};
  }
}

template <class T>
__device__ __forceinline__ void store_columns(const ContractParameters& p, u32 row, u32 column, u32 count,
                                              const T (&from)[columns_at_once]) {
  T* to = static_cast<T*>(p.c) + i64(row) * p.c_row + column;
  if (p.c_vector && count == columns_at_once) {
    store(to, from);
  } else {
    for (u32 i = 0; i < count; ++i) to[i] = from[i];
  }
}

__device__ __forceinline__ void multiply_add(f16, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  mma_f16(d, a, b);
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void multiply_add(bf16, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  mma_bf16(d, a, b);
}
__device__ __forceinline__ void multiply_add(f32, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  mma_tf32(d, a, b);
}
#endif

/// The window of a convolution, known to the compiler: k is (its row, its column, the channel).
template <u32 CHANNELS, u32 HEIGHT, u32 WIDTH, u32 STRIDE_Y, u32 STRIDE_X, u32 DILATION_Y, u32 DILATION_X,
          bool ROW_IS_TAP>
struct Window {
  static constexpr bool exists = true;
  static constexpr u32 channels = CHANNELS, height = HEIGHT, width = WIDTH;
  static constexpr i32 stride_y = STRIDE_Y, stride_x = STRIDE_X, dilation_y = DILATION_Y, dilation_x = DILATION_X;
  /// A row of taps is one, whose channels are those of all its pixels.
  static constexpr bool row_is_tap = ROW_IS_TAP;
};
/// A is a matrix.
struct NoWindow {
  static constexpr bool exists = false;
  static constexpr u32 channels = 1, height = 1, width = 1;
  static constexpr i32 stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  static constexpr bool row_is_tap = false;
};

/// WINDOW: A is read through the windows of a convolution, or is a matrix. B_BY_COLUMNS: B is stored [k][n] with n consecutive
/// (16-bit types, BN at least 64). TENSOR: on tensor cores; else f32 in plain FMA, exact. WARPS_K warps share the sums
/// of a part of the tile, each with its part of every slice. ALIGNED: all copies are of 16 aligned bytes that are in the
/// operand as a whole; else they may be of single elements. (Code that is there for the rare case costs time: it is fetched anew for each launch.)
template <class T, int BM, int BN, int WARPS_M, int WARPS_N, int WARPS_K, int STAGES, class WINDOW,
          bool B_BY_COLUMNS, bool TENSOR, bool ALIGNED, class Finish>
struct Contract {
  static constexpr int threads = 32 * WARPS_M * WARPS_N * WARPS_K;
  static constexpr int chunk = 16 / sizeof(T), bk = 8 * chunk;  ///< elements
  static constexpr int rows_at_once = threads / 8;              ///< that all threads copy together, 8 chunks each
  static constexpr int a_copies = BM / rows_at_once, b_copies = BN / rows_at_once;
  static constexpr int a_bytes = BM * 128, stage_bytes = (BM + BN) * 128;
  static constexpr int sum_pitch = BN + 4;  ///< floats; of the tile's sums in shared memory
  static_assert(a_copies > 0 && b_copies > 0 && BM % rows_at_once == 0 && BN % rows_at_once == 0);

  static __device__ __forceinline__ u32 swizzled(u32 row, u32 chunk_of_row) {
    return row * 128 + ((chunk_of_row ^ (row & 7)) << 4);
  }

  struct Position {
    i32 pixel, y, x;
  };

  // ---- copying slices

  const ContractParameters& p;
  unsigned char* shared;
  const T* a;
  const T* b;
  u32 row0, column0, lane_chunk, lane_row;
  // For copies of 16 bytes: this thread's first chunk of each row, and which rows there are. Of a window, bit t of a
  // row says whether its row t of taps lies inside, bit 16 + t whether its column t does.
  const T* a_from[a_copies];
  u32 a_exists[a_copies];
  const T* b_from[b_copies];
  u32 b_exists;
  u32 tap_y, tap_x, tap_channel;  ///< of this thread's chunk in the next slice

  __device__ __forceinline__ Contract(const ContractParameters& parameters, unsigned char* memory, u32 z, u32 tile,
                                      u32 first_k_tile)
      : p(parameters), shared(memory) {
    const u32 tile_m = p.tiles_n.quotient(tile);
    row0 = tile_m * BM;
    column0 = (tile - tile_m * p.tiles_n.value) * BN;
    a = static_cast<const T*>(p.a);
    b = static_cast<const T*>(p.b);
    if (z > 0) {
      a += offset_of_row(p.a_batch, z);
      b += offset_of_row(p.b_batch, z);
    }
    lane_chunk = threadIdx.x % 8;
    lane_row = threadIdx.x / 8;
    if (ALIGNED || p.a_vector) {
#pragma unroll
      for (int i = 0; i < a_copies; ++i) {
        const u32 row = row0 + lane_row + i * rows_at_once;
        if constexpr (WINDOW::exists) {
          const Position window = position(row);
          a_exists[i] = taps_inside(window);
          a_from[i] = a + (window.pixel + i64(window.y) * p.in_w + window.x) * p.a_row;
        } else {
          a_exists[i] = row < p.m;
          a_from[i] = a + row * p.a_row + lane_chunk * chunk;
        }
        keep(a_exists[i]);
        keep(a_from[i]);
      }
      if constexpr (WINDOW::exists) {
        const u32 k = first_k_tile * bk + lane_chunk * chunk;
        const u32 tap = k / WINDOW::channels;
        tap_channel = k - tap * WINDOW::channels;
        tap_y = tap / WINDOW::width;
        tap_x = tap - tap_y * WINDOW::width;
      }
    }
    b_exists = 0;
    if (!B_BY_COLUMNS && (ALIGNED || p.b_vector)) {
#pragma unroll
      for (int i = 0; i < b_copies; ++i) {
        const u32 column = column0 + lane_row + i * rows_at_once;
        b_exists |= u32(column < p.n) << i;
        b_from[i] = b + column * p.b_row + lane_chunk * chunk;
        keep(b_from[i]);
      }
      keep(b_exists);
    }
  }

  /// Of the window that row `row` of A is; one that is outside everything for rows behind the last.
  __device__ __forceinline__ Position position(u32 row) const {
    if (row >= p.m) return {0, -(1 << 30), 0};
    const u32 image = p.out_pixels.quotient(row), in_image = row - image * p.out_pixels.value;
    const u32 y = p.out_w.quotient(in_image), x = in_image - y * p.out_w.value;
    return {i32(image * p.in_h * p.in_w), i32(y) * WINDOW::stride_y - p.pad_top, i32(x) * WINDOW::stride_x - p.pad_left};
  }

  __device__ __forceinline__ u32 taps_inside(const Position& window) const {
    u32 mask = 0;
    for (u32 t = 0; t < WINDOW::height; ++t) mask |= u32(u32(window.y + i32(t) * WINDOW::dilation_y) < p.in_h) << t;
    for (u32 t = 0; t < WINDOW::width; ++t)
      mask |= u32(u32(window.x + i32(t) * WINDOW::dilation_x) < p.in_w) << (16 + t);
    return mask;
  }

  /// Chunk `c` of a slice's row, element by element; `get(k)` is an element, `k0` the slice's first.
  template <class Get>
  static __device__ __forceinline__ void gather(unsigned char* to, u32 k0, u32 k_end, Get get) {
    T elements[chunk];
#pragma unroll
    for (int j = 0; j < chunk; ++j) elements[j] = k0 + j < k_end ? get(k0 + j) : T{};
    store(reinterpret_cast<T*>(to), elements);
  }

  /// The elements of a chunk from k on, as bytes.
  __device__ __forceinline__ static int bytes_left(u32 at, u32 end) {
    return at >= end ? 0 : end - at >= u32(chunk) ? 16 : int(end - at) * int(sizeof(T));
  }

  __device__ __forceinline__ unsigned char* stage_a(u32 stage) const { return shared + stage * stage_bytes; }
  __device__ __forceinline__ unsigned char* stage_b(u32 stage) const { return stage_a(stage) + a_bytes; }

  __device__ __forceinline__ void copy_a(unsigned char* to, u32 k_tile) {
    if (!ALIGNED && !p.a_vector) {
      if (WINDOW::exists) {
        gather_windows(to, k_tile);
      } else {
        gather_rows<BM, a_copies>(to, k_tile, a, p.a_row, p.a_column, row0, p.m);
      }
      return;
    }
    const u32 k = k_tile * bk + lane_chunk * chunk;
    const bool some = k < p.k;
    const auto copy = [&](u32 address, const T* from, bool exists) {
      if (ALIGNED) {
        copy_async_16_or_zero(address, from, exists && some);
      } else {
        copy_async_16(address, from, exists ? bytes_left(k, p.k) : 0);
      }
    };
    // Rows that threads copy together are a multiple of 8 apart: the swizzle is the same.
    const u32 here = shared_address(to) + swizzled(lane_row, lane_chunk);
    if constexpr (WINDOW::exists) {
      const i64 tap = (i64(tap_y) * WINDOW::dilation_y * p.in_w + tap_x * WINDOW::dilation_x) * p.a_row + tap_channel;
#pragma unroll
      for (int i = 0; i < a_copies; ++i) {
        const bool exists = (a_exists[i] >> tap_y) & (a_exists[i] >> (16 + tap_x)) & 1;
        copy(here + i * rows_at_once * 128, a_from[i] + tap, exists);
      }
      tap_channel += bk;
      while (tap_channel >= WINDOW::channels) {
        tap_channel -= WINDOW::channels;
        if (++tap_x == WINDOW::width) {
          tap_x = 0;
          ++tap_y;
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < a_copies; ++i)
        copy(here + i * rows_at_once * 128, a_from[i] + k_tile * bk, a_exists[i]);
    }
  }

  __device__ __forceinline__ void gather_windows(unsigned char* to, u32 k_tile) const {
    const u32 k = k_tile * bk + lane_chunk * chunk;
    const u32 first_tap = k / WINDOW::channels, first_y = first_tap / WINDOW::width;
    for (int i = 0; i < a_copies; ++i) {
      const u32 r = lane_row + i * rows_at_once;
      const Position window = position(row0 + r);
      u32 y = first_y, x = first_tap - first_y * WINDOW::width, channel = k - first_tap * WINDOW::channels;
      gather(to + swizzled(r, lane_chunk), k, p.k, [&](u32) {
        const i32 in_y = window.y + i32(y) * WINDOW::dilation_y, in_x = window.x + i32(x) * WINDOW::dilation_x;
        // A whole row of taps may stand for one that has channels only: they are neighbours in the image.
        const bool inside = u32(in_y) < p.in_h && u32(in_x + i32(WINDOW::row_is_tap ? channel : 0)) < p.in_w;
        const T value = inside ? a[(window.pixel + i64(in_y) * p.in_w + in_x) * p.a_row + channel] : T{};
        if (++channel == WINDOW::channels) {
          channel = 0;
          if (++x == WINDOW::width) {
            x = 0;
            ++y;
          }
        }
        return value;
      });
    }
  }

  /// A slice of a matrix with any strides.
  template <int ROWS, int COPIES>
  __device__ __forceinline__ void gather_rows(unsigned char* to, u32 k_tile, const T* from, i64 row_stride,
                                              i64 column_stride, u32 first_row, u32 end_row) const {
    for (int i = 0; i < COPIES; ++i) {
      // Neighbouring threads take neighbours in memory.
      const u32 e = threadIdx.x + i * threads;
      const u32 r = row_stride == 1 ? e % ROWS : e / 8, c = row_stride == 1 ? e / ROWS : e % 8;
      const u32 row = first_row + r;
      gather(to + swizzled(r, c), k_tile * bk + c * chunk, row < end_row ? p.k : 0,
             [&](u32 k) { return from[row * row_stride + k * column_stride]; });
    }
  }

  __device__ __forceinline__ void copy_b(unsigned char* to, u32 k_tile) const {
    if (!B_BY_COLUMNS) {
      if (!ALIGNED && !p.b_vector) return gather_rows<BN, b_copies>(to, k_tile, b, p.b_row, p.b_column, column0, p.n);
      const u32 k = k_tile * bk + lane_chunk * chunk;
      const u32 here = shared_address(to) + swizzled(lane_row, lane_chunk);
#pragma unroll
      for (int i = 0; i < b_copies; ++i) {
        const u32 address = here + i * rows_at_once * 128;
        const bool exists = (b_exists >> i) & 1;
        if (ALIGNED) {
          copy_async_16_or_zero(address, b_from[i] + k_tile * bk, exists && k < p.k);
        } else {
          copy_async_16(address, b_from[i] + k_tile * bk, exists ? bytes_left(k, p.k) : 0);
        }
      }
      return;
    }
    // Panels of 64 columns, a row for each k.
#pragma unroll
    for (int i = 0; i < b_copies; ++i) {
      const u32 e = threadIdx.x + i * threads;
      constexpr u32 chunks_a_row = BN / chunk;
      const u32 r = e / chunks_a_row, c = e % chunks_a_row;
      const u32 k = k_tile * bk + r, column = column0 + c * chunk;
      unsigned char* here = to + (c / 8) * (bk * 128) + swizzled(r, c % 8);
      if (ALIGNED) {
        copy_async_16_or_zero(shared_address(here), b + k * p.b_column + column, k < p.k && column < p.n);
      } else if (p.b_vector) {
        const int bytes = k < p.k ? bytes_left(column, p.n) : 0;
        copy_async_16(here, bytes > 0 ? b + k * p.b_column + column : b, bytes);
      } else {
        gather(here, column, k < p.k ? p.n : 0, [&](u32 n) { return b[k * p.b_column + n]; });
      }
    }
  }

  // ---- multiplying

  static constexpr int warp_m = BM / WARPS_M, warp_n = BN / WARPS_N;
  static constexpr int tiles_m = warp_m / 16, tiles_n = warp_n / 8;
  static constexpr int steps = 4 / WARPS_K;  ///< of 32 bytes of k
  static_assert(!TENSOR || (warp_m % 16 == 0 && warp_n % 16 == 0 && steps * WARPS_K == 4));
  // Without tensor cores: threads of a row of 16 hold columns tx + 16·j, of every so manieth row.
  static constexpr int thread_rows = threads / 16, plain_m = BM / thread_rows, plain_n = BN / 16;
  static_assert(TENSOR || WARPS_K == 1);

  struct TensorSums {
    float d[tiles_m > 0 ? tiles_m : 1][tiles_n > 0 ? tiles_n : 1][4];
  };
  struct PlainSums {
    float d[plain_m > 0 ? plain_m : 1][plain_n > 0 ? plain_n : 1];
  };

  static __device__ __forceinline__ u32 warp_row() { return threadIdx.x / 32 / WARPS_N % WARPS_M * warp_m; }
  static __device__ __forceinline__ u32 warp_column() { return threadIdx.x / 32 % WARPS_N * warp_n; }
  static __device__ __forceinline__ u32 warp_k() { return threadIdx.x / 32 / (WARPS_M * WARPS_N); }

  /// Where this lane's rows of a slice's fragments are: a row, and the swizzle of its first chunk, which a step of 32
  /// bytes of k changes in other bits than the lane does. Rows 16 apart have the same.
  struct Lane {
    u32 a, a_swizzle, b, b_swizzle;

    __device__ __forceinline__ Lane() {
      const u32 lane = threadIdx.x % 32;
      const u32 row_a = warp_row() + (lane & 15), row_b = warp_column() + (lane & 7) + ((lane >> 4) << 3);
      const u32 first = warp_k() * steps * 32;
      a = row_a * 128;
      a_swizzle = (((lane >> 4) ^ (row_a & 7)) << 4) ^ first;
      b = a_bytes + row_b * 128;
      b_swizzle = ((((lane >> 3) & 1) ^ (row_b & 7)) << 4) ^ first;
      if (B_BY_COLUMNS) {
        // Rows are of k: the lane's is among a step's 16, whose swizzle is the same for all steps.
        const u32 n = warp_column() + (lane >> 4) * 8, k = warp_k() * steps * 16 + (lane & 15);
        b = a_bytes + n / 64 * (bk * 128) + k * 128;
        b_swizzle = ((n % 64 / 8) ^ (k & 7)) << 4;
      }
      keep(a);
      keep(a_swizzle);
      keep(b);
      keep(b_swizzle);
    }
  };

  struct Fragments {
    u32 a[tiles_m > 0 ? tiles_m : 1][4], b[tiles_n > 1 ? tiles_n / 2 : 1][4];
  };

  static __device__ __forceinline__ void load_fragments(Fragments& to, const Lane& lane, u32 stage, u32 step) {
    const u32 from_a = stage + lane.a + (lane.a_swizzle ^ (step * 32));
#pragma unroll
    for (int i = 0; i < tiles_m; ++i) load_matrix_x4(to.a[i], from_a + i * (16 * 128));
    const u32 from_b = stage + lane.b + (B_BY_COLUMNS ? step * (16 * 128) : 0);
#pragma unroll
    for (int j = 0; j < tiles_n / 2; ++j) {
      if constexpr (B_BY_COLUMNS) {
        // 16 columns on are 2 chunks, of 8 in a panel: a warp's columns are within one, or whole ones.
        const u32 panel = j / 4 * (bk * 128);
        load_matrix_x4_transposed(to.b[j], from_b + panel + (lane.b_swizzle ^ (j % 4 * 32)));
      } else {
        load_matrix_x4(to.b[j], from_b + (lane.b_swizzle ^ (step * 32)) + j * (16 * 128));
      }
    }
  }
  static_assert(!B_BY_COLUMNS || warp_n <= 64 || warp_n % 64 == 0);
  static_assert(!B_BY_COLUMNS || 64 % warp_n == 0 || warp_n % 64 == 0);

  static __device__ __forceinline__ void multiply(TensorSums& sums, const Lane& lane, const unsigned char* stage) {
    const u32 address = shared_address(stage);
    Fragments fragments[2];
    load_fragments(fragments[0], lane, address, 0);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      if (step + 1 < steps) load_fragments(fragments[(step + 1) % 2], lane, address, step + 1);
      const Fragments& here = fragments[step % 2];
#pragma unroll
      for (int i = 0; i < tiles_m; ++i)
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) {
          const u32 pair[2] = {here.b[j / 2][j % 2 * 2], here.b[j / 2][j % 2 * 2 + 1]};
          multiply_add(T{}, sums.d[i][j], here.a[i], pair);
        }
    }
  }

  struct NoLane {};
  static __device__ __forceinline__ void multiply(PlainSums& sums, const NoLane&, const unsigned char* stage) {
    const u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const unsigned char* b_stage = stage + BM * 128;
#pragma unroll 2
    for (u32 c = 0; c < 8; ++c) {
      float4 x[plain_m], w[plain_n];
#pragma unroll
      for (int i = 0; i < plain_m; ++i)
        x[i] = *reinterpret_cast<const float4*>(stage + swizzled(ty + i * thread_rows, c));
#pragma unroll
      for (int j = 0; j < plain_n; ++j) w[j] = *reinterpret_cast<const float4*>(b_stage + swizzled(tx + j * 16, c));
#pragma unroll
      for (int i = 0; i < plain_m; ++i)
#pragma unroll
        for (int j = 0; j < plain_n; ++j) {
          sums.d[i][j] = fmaf(x[i].x, w[j].x, sums.d[i][j]);
          sums.d[i][j] = fmaf(x[i].y, w[j].y, sums.d[i][j]);
          sums.d[i][j] = fmaf(x[i].z, w[j].z, sums.d[i][j]);
          sums.d[i][j] = fmaf(x[i].w, w[j].w, sums.d[i][j]);
        }
    }
  }

  /// The tile's sums to shared memory, ready for all threads.
  static __device__ __forceinline__ void put(const TensorSums& sums, float* to) {
    const u32 lane = threadIdx.x % 32;
    const u32 m0 = warp_row() + lane / 4, n0 = warp_column() + lane % 4 * 2;
#pragma unroll
    for (int turn = 0; turn < WARPS_K; ++turn) {  // one warp's behind the other's, always in this order
      if (warp_k() == turn) {
#pragma unroll
        for (int i = 0; i < tiles_m; ++i)
#pragma unroll
          for (int j = 0; j < tiles_n; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              float2* here = reinterpret_cast<float2*>(to + (m0 + i * 16 + half * 8) * sum_pitch + n0 + j * 8);
              float2 sum = make_float2(sums.d[i][j][half * 2], sums.d[i][j][half * 2 + 1]);
              if (turn > 0) {
                const float2 before = *here;
                sum.x += before.x;
                sum.y += before.y;
              }
              *here = sum;
            }
      }
      __syncthreads();
    }
  }

  static __device__ __forceinline__ void put(const PlainSums& sums, float* to) {
    const u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < plain_m; ++i)
#pragma unroll
      for (int j = 0; j < plain_n; ++j) to[(ty + i * thread_rows) * sum_pitch + tx + j * 16] = sums.d[i][j];
    __syncthreads();
  }

  // ---- what comes after the sum

  /// What comes behind the sums of chunk `e` of the tile: `part(row, column, i)` gives 4 of those that block i of
  /// `parts` found.
  template <class Part>
  __device__ __forceinline__ void finish(u32 z, u32 e, u32 parts, Part part) const {
    const u32 r = e / (BN / columns_at_once), c = e % (BN / columns_at_once) * columns_at_once;
    if (row0 + r >= p.m || column0 + c >= p.n) return;
    float v[columns_at_once] = {};
    // Four parts at once: what is in other blocks takes hundreds of cycles to come.
    constexpr u32 at_once = 4;
#pragma unroll 1
    for (u32 i = 0; i < parts; i += at_once) {
      float4 low[at_once] = {}, high[at_once] = {};
#pragma unroll
      for (u32 j = 0; j < at_once; ++j)
        if (i + j < parts) low[j] = part(r, c, i + j), high[j] = part(r, c + 4, i + j);
#pragma unroll
      for (u32 j = 0; j < at_once; ++j) {
        v[0] += low[j].x, v[1] += low[j].y, v[2] += low[j].z, v[3] += low[j].w;
        v[4] += high[j].x, v[5] += high[j].y, v[6] += high[j].z, v[7] += high[j].w;
      }
    }
    const u32 left = p.n - column0 - c;
    Finish::run(p, v, z * p.c_row_step + row0 + r, z * p.c_column_step + column0 + c,
                left < columns_at_once ? left : columns_at_once);
  }

  static constexpr u32 chunks = BM * BN / columns_at_once;

  template <class Sums, class OfLane>
  static __device__ __forceinline__ void run_with(const ContractParameters& p) {
    DYNAMIC_SHARED(shared);
    const u32 z = p.tiles.quotient(blockIdx.x), tile = blockIdx.x - z * p.tiles.value;
    const u32 split = blockIdx.y, splits = gridDim.y;
    const u32 first = split * p.k_tiles_per_split;
    const u32 end = first + p.k_tiles_per_split < p.k_tiles ? first + p.k_tiles_per_split : p.k_tiles;
    Contract block(p, shared, z, tile, first);
    Sums sums = {};
    if (p.b_is_constant) {
#pragma unroll 1
      for (u32 s = 0; s < STAGES - 1 && first + s < end; ++s) block.copy_b(block.stage_b(s), first + s);
    }
    wait_for_previous();
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
      if (first + s < end) {
        block.copy_a(block.stage_a(s), first + s);
        if (!p.b_is_constant) block.copy_b(block.stage_b(s), first + s);
      }
      copy_async_commit();
    }
    const OfLane lane;
    u32 from = 0, to = STAGES - 1;  // stages
#pragma unroll 1
    for (u32 k_tile = first; k_tile < end; ++k_tile) {
      copy_async_wait<STAGES - 2>();
      __syncthreads();
      if (k_tile + STAGES - 1 < end) {
        block.copy_a(block.stage_a(to), k_tile + STAGES - 1);
        block.copy_b(block.stage_b(to), k_tile + STAGES - 1);
      }
      copy_async_commit();
      multiply(sums, lane, shared + from * stage_bytes);
      from = from + 1 == STAGES ? 0 : from + 1;
      to = to + 1 == STAGES ? 0 : to + 1;
    }
    // Not before: the next kernel's blocks would wait in the room that this one's need (ResNet-50: 0.49 ms, not 0.43).
    let_next_start();
    copy_async_wait<0>();
    __syncthreads();
    float* staged = reinterpret_cast<float*>(shared);
    put(sums, staged);
    const float* parts = staged;  // of one block, or of all
    u32 pitch = sum_pitch, chunk0 = threadIdx.x, step = threads;
    bool is_cluster = false;
    if (splits > 1) {
#if __CUDA_ARCH__ >= 900
      is_cluster = p.is_cluster;
#endif
      if (is_cluster) {
        // Each block finishes its part of the tile, with the sums of all.
#if __CUDA_ARCH__ >= 900
        cluster_sync();
#endif
        chunk0 += split * threads;
        step *= splits;
      } else {
        // Each block leaves its sums; the last of a tile adds them up, always in the same order.
        float* partial = p.partial + i64(blockIdx.x) * splits * (BM * BN);
        for (u32 e = threadIdx.x; e < BM * BN / 4; e += threads) {
          const u32 r = e / (BN / 4), c = e % (BN / 4) * 4;
          *reinterpret_cast<float4*>(partial + split * (BM * BN) + e * 4) =
              *reinterpret_cast<const float4*>(staged + r * sum_pitch + c);
        }
        __threadfence();
        __syncthreads();
        u32* turn = reinterpret_cast<u32*>(shared);
        if (threadIdx.x == 0) *turn = atomicAdd(p.counters + blockIdx.x, 1u);
        __syncthreads();
        if (*turn + 1 != splits) return;
        __threadfence();
        if (threadIdx.x == 0) p.counters[blockIdx.x] = 0;
        parts = partial;
        pitch = BN;
      }
    }
#pragma unroll 1
    for (u32 e = chunk0; e < chunks; e += step)
      block.finish(z, e, splits, [&](u32 r, u32 c, u32 i) {
#if __CUDA_ARCH__ >= 900
        if (is_cluster) return load_of_cluster(shared_address(shared) + (r * sum_pitch + c) * 4, i);
#endif
        return *reinterpret_cast<const float4*>(parts + i64(i) * (BM * BN) + r * pitch + c);
      });
#if __CUDA_ARCH__ >= 900
    if (is_cluster) cluster_sync();  // nobody leaves while others read
#endif
  }

  static __device__ __forceinline__ void run(const ContractParameters& p) {
    if constexpr (TENSOR) {
      run_with<TensorSums, Lane>(p);
    } else {
      run_with<PlainSums, NoLane>(p);
    }
  }
};

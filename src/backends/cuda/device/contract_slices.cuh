// The slices of A and B that a block of a contraction multiplies, on their way into shared memory. A slice is 128 bytes
// of k of each row. Rows are swizzled by 16 bytes (chunk ^ row mod 8), so that neither copies nor matrix loads meet in
// a bank; it is the swizzle of 128 bytes that wgmma and the tensor memory accelerator know.

/// What products of T are added up in.
template <class T>
struct SumOf {
  typedef f32 Type;
};
template <>
struct SumOf<i8> {
  typedef i32 Type;
};
template <>
struct SumOf<u8> {
  typedef i32 Type;
};

/// The column of a matrix of B that is this one of the result: of 4 lanes, which have every fourth pair of 32 columns of
/// the sums, each gets 8 that follow each other.
__device__ __forceinline__ u32 placed_column(u32 column) {
  return column / 32 * 32 + column % 8 / 2 * 8 + column % 32 / 8 * 2 + column % 2;
}

/// The part of the result that one block computes, and how its warps share it.
///
/// WAITS, of sums that are made beside the threads: these wait for the slice before, whose stage is free for copies then;
/// else its products and those of the next one follow each other without a gap, and a stage more of the ring is taken.
///
/// FROM_REGISTERS, of the same: what comes behind the sums takes them from the registers they are in. Columns are placed
/// for that so that a lane's sums are 8 columns that follow each other; through shared memory they would take as long as
/// four slices of a tile of 128 x 256 bytes.
template <class ELEMENT, int M, int N, int WARPS_M, int WARPS_N, int WARPS_K, int STAGES, bool WAITS,
          bool FROM_REGISTERS>
struct Tile {
  typedef ELEMENT T;
  typedef typename SumOf<T>::Type Sum;
  static constexpr int m = M, n = N, warps_m = WARPS_M, warps_n = WARPS_N, warps_k = WARPS_K, stages = STAGES;
  static constexpr bool waits = WAITS, from_registers = FROM_REGISTERS;
  static constexpr int threads = 32 * WARPS_M * WARPS_N * WARPS_K;
  static constexpr int chunk = 16 / sizeof(T), bk = 8 * chunk;  ///< elements
  static constexpr int a_bytes = M * 128, stage_bytes = (M + N) * 128;
  static constexpr int sum_pitch = N + 4;  ///< of the tile's sums in shared memory

  static __device__ __forceinline__ u32 swizzled(u32 row, u32 chunk_of_row) {
    return row * 128 + ((chunk_of_row ^ (row & 7)) << 4);
  }
  /// Which row of a slice of B this column of the tile is.
  static __device__ __forceinline__ u32 place_of(u32 column) {
    return FROM_REGISTERS ? placed_column(column) : column;
  }
};

/// The window of a convolution, known to the compiler: k is (its row, its column, the channel).
template <u32 CHANNELS, u32 HEIGHT, u32 WIDTH, u32 STRIDE_Y, u32 STRIDE_X, u32 DILATION_Y, u32 DILATION_X,
          bool ROW_IS_TAP, u32 PADDING>
struct Window {
  static constexpr bool exists = true;
  static constexpr u32 channels = CHANNELS, height = HEIGHT, width = WIDTH;
  static constexpr i32 stride_y = STRIDE_Y, stride_x = STRIDE_X, dilation_y = DILATION_Y, dilation_x = DILATION_X;
  /// A row of taps is one, whose channels are those of all its pixels.
  static constexpr bool row_is_tap = ROW_IS_TAP;
  /// The byte that stands around an image of bytes, whose zero point it is; 0 of other types.
  static constexpr u32 padding = PADDING;
};
/// A is a matrix.
struct NoWindow {
  static constexpr bool exists = false;
  static constexpr u32 channels = 1, height = 1, width = 1;
  static constexpr i32 stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  static constexpr bool row_is_tap = false;
  static constexpr u32 padding = 0;
};

/// WINDOW: A is read through the windows of a convolution, or is a matrix. B_BY_COLUMNS: B is stored [k][n] with n
/// consecutive (16-bit types, a tile of at least 64 columns). ALIGNED: all copies are of 16 aligned bytes that are in
/// the operand as a whole; else they may be of single elements. (Code that is there for the rare case costs time: it is
/// fetched anew for each launch.)
template <class TILE, class WINDOW, bool B_BY_COLUMNS, bool ALIGNED>
struct Slices {
  typedef typename TILE::T T;
  static constexpr int BM = TILE::m, BN = TILE::n, threads = TILE::threads, chunk = TILE::chunk, bk = TILE::bk;
  static constexpr int rows_at_once = threads / 8;  ///< that all threads copy together, 8 chunks each
  static constexpr int a_copies = BM / rows_at_once, b_copies = BN / rows_at_once;
  static_assert(a_copies > 0 && b_copies > 0 && BM % rows_at_once == 0 && BN % rows_at_once == 0);
  /// Whether some of a slice is stored, and not copied beside the threads.
  static constexpr bool stores = !ALIGNED || WINDOW::padding != 0;

  struct Position {
    i32 pixel, y, x;
  };

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

  __device__ __forceinline__ Slices(const ContractParameters& parameters, unsigned char* memory)
      : p(parameters), shared(memory) {}

  /// From now on of this tile of matrix z; the next slice to be copied is `first_k_tile`.
  __device__ __forceinline__ void move_to(u32 z, u32 tile, u32 first_k_tile) {
    const u32 tile_m = divide(tile, p.tiles_n);
    move_to(z, tile_m * BM, (tile - tile_m * p.tiles_n.value) * BN, first_k_tile);
  }
  /// The same of the tile that begins there.
  __device__ __forceinline__ void move_to(u32 z, u32 first_row, u32 first_column, u32 first_k_tile) {
    row0 = first_row;
    column0 = first_column;
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
      if constexpr (WINDOW::exists) locate_tap(first_k_tile * bk + lane_chunk * chunk);
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

  /// Before the first copy of a constant B, which weights of few bits always are: of slices `first` to `end` - 1, each
  /// copied `slices_ahead` before it is multiplied.
  __device__ __forceinline__ void begin(u32 /*first*/, u32 /*end*/, u32 /*slices_ahead*/) {}

  /// The tap and the channel that k is.
  __device__ __forceinline__ void locate_tap(u32 k) {
    const u32 tap = k / WINDOW::channels;
    tap_channel = k - tap * WINDOW::channels;
    tap_y = tap / WINDOW::width;
    tap_x = tap - tap_y * WINDOW::width;
  }

  /// Of the window that row `row` of A is; one that is outside everything for rows behind the last.
  __device__ __forceinline__ Position position(u32 row) const {
    if (row >= p.m) return {0, -(1 << 30), 0};
    const u32 image = divide(row, p.out_pixels), in_image = row - image * p.out_pixels.value;
    const u32 y = divide(in_image, p.out_w), x = in_image - y * p.out_w.value;
    return {i32(image * p.in_h * p.in_w), i32(y) * WINDOW::stride_y - p.pad_top, i32(x) * WINDOW::stride_x - p.pad_left};
  }

  __device__ __forceinline__ u32 taps_inside(const Position& window) const {
    return inside<WINDOW::height, WINDOW::dilation_y>(window.y, p.in_h) |
           inside<WINDOW::width, WINDOW::dilation_x>(window.x, p.in_w) << 16;
  }
  /// Bit t: whether first + t * dilation is in [0, size). At most 16 are of use.
  template <u32 COUNT, i32 DILATION>
  static __device__ __forceinline__ u32 inside(i32 first, u32 size) {
    if constexpr (DILATION == 1 && COUNT <= 16) {
      const i32 behind = i32(size) - first;
      const u32 begin = first >= 0 ? 0 : first > -i32(COUNT) ? u32(-first) : COUNT;
      const u32 end = behind <= 0 ? 0 : behind < i32(COUNT) ? u32(behind) : COUNT;
      return ((1u << end) - 1) & ~((1u << begin) - 1);
    } else {
      u32 mask = 0;
      for (u32 t = 0; t < COUNT; ++t) mask |= u32(u32(first + i32(t) * DILATION) < size) << t;
      return mask;
    }
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

  __device__ __forceinline__ unsigned char* stage_a(u32 stage) const { return shared + stage * TILE::stage_bytes; }
  __device__ __forceinline__ unsigned char* stage_b(u32 stage) const { return stage_a(stage) + TILE::a_bytes; }

  __device__ __forceinline__ void copy_a(unsigned char* to, u32 k_tile) {
    if (!ALIGNED && !p.a_vector) {
      if (WINDOW::exists) {
        gather_windows(to, k_tile);
      } else {
        gather_rows<BM, a_copies, false>(to, k_tile, a, p.a_row, p.a_column, row0, p.m);
      }
      return;
    }
    const u32 k = k_tile * bk + lane_chunk * chunk;
    const bool some = k < p.k;
    const auto copy = [&](u32 address, const T* from, bool exists) {
      if (WINDOW::padding != 0 && !exists) {
        store_shared_16(address, WINDOW::padding * 0x01010101u);
      } else if (ALIGNED) {
        // Windows of few channels overlap within a slice.
        constexpr bool overlap = WINDOW::exists && WINDOW::channels < bk;
        copy_async_16_or_zero<overlap>(address, from, exists && some);
      } else {
        copy_async_16(address, from, exists ? bytes_left(k, p.k) : 0);
      }
    };
    // Rows that threads copy together are a multiple of 8 apart: the swizzle is the same.
    const u32 here = shared_address(to) + TILE::swizzled(lane_row, lane_chunk);
    if constexpr (WINDOW::exists) {
      const i64 tap = (i64(tap_y) * WINDOW::dilation_y * p.in_w + tap_x * WINDOW::dilation_x) * p.a_row + tap_channel;
#pragma unroll
      for (int i = 0; i < a_copies; ++i) {
        const bool exists = (a_exists[i] >> tap_y) & (a_exists[i] >> (16 + tap_x)) & 1;
        copy(here + i * rows_at_once * 128, a_from[i] + tap, exists);
      }
      if constexpr (WINDOW::channels < bk) {  // several taps a slice
        locate_tap(k + bk);
      } else {
        tap_channel += bk;
        if (tap_channel >= WINDOW::channels) {
          tap_channel -= WINDOW::channels;
          if (++tap_x == WINDOW::width) {
            tap_x = 0;
            ++tap_y;
          }
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < a_copies; ++i)
        copy(here + i * rows_at_once * 128, a_from[i] + k_tile * bk, a_exists[i]);
    }
  }

  /// What an image has around it.
  static __device__ __forceinline__ T around() {
    if constexpr (WINDOW::padding != 0) {
      return T(WINDOW::padding);
    } else {
      return T{};
    }
  }

  __device__ __forceinline__ void gather_windows(unsigned char* to, u32 k_tile) const {
    const u32 k = k_tile * bk + lane_chunk * chunk;
    const u32 first_tap = k / WINDOW::channels, first_y = first_tap / WINDOW::width;
    for (int i = 0; i < a_copies; ++i) {
      const u32 r = lane_row + i * rows_at_once;
      const Position window = position(row0 + r);
      u32 y = first_y, x = first_tap - first_y * WINDOW::width, channel = k - first_tap * WINDOW::channels;
      gather(to + TILE::swizzled(r, lane_chunk), k, p.k, [&](u32) {
        const i32 in_y = window.y + i32(y) * WINDOW::dilation_y, in_x = window.x + i32(x) * WINDOW::dilation_x;
        // A whole row of taps may stand for one that has channels only: they are neighbours in the image.
        const bool inside = u32(in_y) < p.in_h && u32(in_x + i32(WINDOW::row_is_tap ? channel : 0)) < p.in_w;
        const T value = inside ? a[(window.pixel + i64(in_y) * p.in_w + in_x) * p.a_row + channel] : around();
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
  template <int ROWS, int COPIES, bool IS_B>
  __device__ __forceinline__ void gather_rows(unsigned char* to, u32 k_tile, const T* from, i64 row_stride,
                                              i64 column_stride, u32 first_row, u32 end_row) const {
    for (int i = 0; i < COPIES; ++i) {
      // Neighbouring threads take neighbours in memory.
      const u32 e = threadIdx.x + i * threads;
      const u32 r = row_stride == 1 ? e % ROWS : e / 8, c = row_stride == 1 ? e / ROWS : e % 8;
      const u32 row = first_row + r;
      gather(to + TILE::swizzled(IS_B ? TILE::place_of(r) : r, c), k_tile * bk + c * chunk, row < end_row ? p.k : 0,
             [&](u32 k) { return from[row * row_stride + k * column_stride]; });
    }
  }

  /// Where the chunk of the `i`-th row of B that this thread copies goes, from where the first one does.
  static __device__ __forceinline__ u32 row_of_b(u32 first, int i) {
    if constexpr (TILE::from_registers && rows_at_once == 16) {
      return (first + (i / 2 * 32 + i % 2 * 4) * 128) ^ (i % 2 * (4 << 4));  // every other one is placed 4 rows on
    } else {
      static_assert(!TILE::from_registers || rows_at_once % 32 == 0);
      return first + i * rows_at_once * 128;
    }
  }

  __device__ __forceinline__ void copy_b(unsigned char* to, u32 k_tile) const {
    if (!B_BY_COLUMNS) {
      if (!ALIGNED && !p.b_vector) return gather_rows<BN, b_copies, true>(to, k_tile, b, p.b_row, p.b_column, column0, p.n);
      const u32 k = k_tile * bk + lane_chunk * chunk;
      const u32 here = shared_address(to) + TILE::swizzled(TILE::place_of(lane_row), lane_chunk);
#pragma unroll
      for (int i = 0; i < b_copies; ++i) {
        const u32 address = row_of_b(here, i);
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
      unsigned char* here = to + (c / 8) * (bk * 128) + TILE::swizzled(r, c % 8);
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
};

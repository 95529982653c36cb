// Convolutions of pixels of 16 bytes (8 channels of 16 bits, as images have that are widened for it), whose windows begin
// a pixel apart. A block brings the patch of the image under its rows of the result into shared memory, and warpgroups
// multiply the windows where they lie: 8 pixels beside each other begin 8 windows beside each other, the next pixels are
// their next 16 bytes of k, and of such pieces wgmma takes matrices. (Windows copied as slices of a matrix, each pixel for
// all windows that it is in, took 305 us for ResNet-50's first convolution at batch 128, now 120.) Compute capability 9.0.

/// GROUPS warpgroups, ROWS rows of the result, N columns: channels of it. ALIGNED: pixels are 16 aligned bytes.
template <class T, int N, int GROUPS, int ROWS, class WINDOW, bool ALIGNED, class Finish>
struct ContractPatch {
  static constexpr u32 threads = 128 * GROUPS, taps = WINDOW::height * WINDOW::width, steps = taps / 2;
  // Rows of the image that are a step apart lie below each other: windows below each other are one row apart then.
  static constexpr u32 planes = WINDOW::stride_y, plane_rows = ROWS + (WINDOW::height - 1) / planes;
  static constexpr u32 slice_bytes = N * 128, slices = (taps + 7) / 8;  ///< of weights, by 64 of k
  static constexpr u32 pixel_bytes = 16, strip = 64;                    ///< pixels that a warpgroup takes at once
  static_assert(taps % 2 == 0 && WINDOW::channels == 8 && WINDOW::stride_x == 1 && sizeof(T) == 2);
  static_assert(WINDOW::width % 2 == 0 || planes <= 2, "pairs of taps that lie one behind the other");

  /// Bytes from a window's first pixel to one of its taps.
  static __device__ __forceinline__ u32 offset_of_tap(u32 tap, u32 row_bytes) {
    const u32 y = tap / WINDOW::width, x = tap % WINDOW::width;
    return (y % planes * plane_rows + y / planes) * row_bytes + x * pixel_bytes;
  }

  static __device__ __forceinline__ void copy_weights(const ContractParameters& p, unsigned char* to, u32 column0) {
    const u32 chunk = threadIdx.x % 8;
    for (u32 row = threadIdx.x / 8; row < N; row += threads / 8) {
      const u32 place = placed_column(row);  // sums need not pass through shared memory
#pragma unroll
      for (u32 s = 0; s < slices; ++s) {
        const u32 k = s * 64 + chunk * 8;
        copy_async_16_or_zero(shared_address(to) + s * slice_bytes + place * 128 + ((chunk ^ (place & 7)) << 4),
                              static_cast<const T*>(p.b) + (column0 + row) * p.b_row + k,
                              column0 + row < p.n && k < p.k);
      }
    }
  }

  /// The patch whose first window is at (y0, x0) of the result.
  static __device__ __forceinline__ void copy_patch(const ContractParameters& p, unsigned char* to, u32 image, u32 y0,
                                                    u32 x0) {
    const u32 columns = p.patch_columns + WINDOW::width - 1;
    for (u32 row = threadIdx.x / 32; row < planes * plane_rows; row += threads / 32) {
      const u32 plane = row / plane_rows;
      const i32 y = i32((y0 + row - plane * plane_rows) * planes + plane) - p.pad_top;
      const T* from = static_cast<const T*>(p.a) + i64(image * p.in_h + y) * p.in_w * p.a_row;
      for (u32 c = threadIdx.x % 32; c < columns; c += 32) {
        const i32 x = i32(x0 + c) - p.pad_left;
        const bool exists = u32(y) < p.in_h && u32(x) < p.in_w;
        unsigned char* here = to + (row * p.patch_pieces.value * 8 + c) * pixel_bytes;
        if (ALIGNED) {
          copy_async_16_or_zero(shared_address(here), from + x * p.a_row, exists);
        } else {
          T pixel[8] = {};
          for (u32 i = 0; i < 8; ++i)
            if (exists) pixel[i] = from[x * p.a_row + i];
          store(reinterpret_cast<T*>(here), pixel);
        }
      }
    }
  }

  static __device__ __forceinline__ void run(const ContractParameters& p) {
    DYNAMIC_SHARED(shared);
    const u32 image = divide(blockIdx.x, p.tiles), tile = blockIdx.x - image * p.tiles.value;
    const u32 tile_y = divide(tile, p.tiles_n), x0 = (tile - tile_y * p.tiles_n.value) * p.patch_columns;
    const u32 y0 = tile_y * ROWS, column0 = blockIdx.y * N;
    const u32 pieces = p.patch_pieces.value, row_bytes = pieces * (8 * pixel_bytes);
    unsigned char* const patch = shared + slices * slice_bytes;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    copy_weights(p, shared, column0);
    // Of the way out: each lane has 8 columns of every 32, of two pixels.
    constexpr u32 parts = N / 32;
    const u32 first_column = column0 + lane % 4 * columns_at_once;
    typename Finish::OfColumns of_columns[parts];
    const auto load_of_columns = [&] {
#pragma unroll
      for (u32 i = 0; i < parts; ++i) {
        const u32 column = first_column + i * 32;
        if (column < p.n) of_columns[i].load(p, column, count_of_columns(p, column));
      }
    };
    if (Finish::columns_are_constant) load_of_columns();
    wait_for_previous();
    copy_patch(p, patch, image, y0, x0);
    if (!Finish::columns_are_constant) load_of_columns();
    copy_async_commit();
    copy_async_wait<0>();
    show_to_matrix_units();
    __syncthreads();

    const u32 out_h = divide(p.out_pixels.value, p.out_w), rows = out_h - y0 < ROWS ? out_h - y0 : ROWS;
    const u32 strips = (rows * pieces + strip / 8 - 1) / (strip / 8);
    const u64 weights = matrix_descriptor(shared_address(shared));
#pragma unroll 1
    for (u32 s = warp / 4; s < strips; s += GROUPS) {
      float d[N / 8][4];
      const u32 windows = shared_address(patch) + s * (strip * pixel_bytes);
      wgmma_fence();
#pragma unroll
      for (u32 step = 0; step < steps; ++step) {
        const u32 first = offset_of_tap(2 * step, row_bytes), second = offset_of_tap(2 * step + 1, row_bytes);
        multiply(T{}, d, plain_matrix_descriptor(windows + first, second - first, 8 * pixel_bytes),
                 weights + (step / 4 * slice_bytes + step % 4 * 32) / 16, step > 0);
      }
      wgmma_commit();
      wgmma_wait<0>();
      if (s + GROUPS >= strips) let_next_start();
      keep_all(d);
#pragma unroll
      for (u32 half = 0; half < 2; ++half) {
        const u32 piece = s * (strip / 8) + warp % 4 * 2 + half, y = divide(piece, p.patch_pieces);
        const u32 x = (piece - y * pieces) * 8 + lane / 4;
        if (y >= rows || x >= p.patch_columns || x0 + x >= p.out_w.value) continue;
        const u32 row = image * p.out_pixels.value + (y0 + y) * p.out_w.value + x0 + x;
#pragma unroll
        for (u32 i = 0; i < parts; ++i) {
          const u32 column = first_column + i * 32;
          if (column >= p.n) continue;
          const u32 count = count_of_columns(p, column);
          typename Finish::OfRow of_row;
          of_row.load(p, row, column, count);
          float v[columns_at_once];
#pragma unroll
          for (u32 e = 0; e < columns_at_once; ++e) v[e] = d[i * 4 + e / 2][half * 2 + e % 2];
          Finish::run(p, v, of_columns[i], of_row, row, column, count);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ u32 count_of_columns(const ContractParameters& p, u32 first) {
    return Finish::aligned || p.n - first > columns_at_once ? columns_at_once : p.n - first;
  }
  static __device__ __forceinline__ void multiply(f16, float (&d)[N / 8][4], u64 a, u64 b, bool adds) {
    wgmma_f16<false>(d, a, b, adds);
  }
  static __device__ __forceinline__ void multiply(bf16, float (&d)[N / 8][4], u64 a, u64 b, bool adds) {
    wgmma_bf16<false>(d, a, b, adds);
  }
};

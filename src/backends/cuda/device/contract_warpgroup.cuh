// The sums of a block's tile of a contraction, made by whole warpgroups from matrices in shared memory (wgmma): the
// threads copy the next slices meanwhile. f16, bf16, bytes and 8-bit floats, compute capability 9.0. (Blocks whose threads
// take one tile after the other together were no faster: 128 x 256, 16384 x 768 x 768, 44.5 us against 43.5. Those of
// contract_persistent.cuh have groups for copies and for each of two tiles.)

/// 8 columns of 16 bits, kept for AlignedWrites.
struct HoldHalves {
  u32 word[columns_at_once / 2];

  template <class T, bool, class Parameters>
  __device__ __forceinline__ void give(const Parameters&, u32, u32, u32, const f32 (&from)[columns_at_once]) {
    narrow_pairs<T>(from, word);
  }
};

/// Writes a row whose elements are 16 bits wide and begin anywhere, by 16 aligned bytes: four lanes have 8 columns each of
/// 32, which come one after the other, and each lane writes what begins in its left neighbour's. (4,096 rows of 50,257
/// halves in pairs took as long as the products.)
struct AlignedWrites {
  u32 before[columns_at_once / 2] = {};  ///< of this lane, 32 columns further left

  /// `to`: where this lane's columns go, of which there are `count`: 0 in rows that are not there, and behind the last
  /// column. `has_right`: there are columns to the right that this warp writes, too. `is_first`: it has written none of
  /// these rows. All lanes come.
  __device__ __forceinline__ void write(u16* to, const u32 (&word)[4], u32 count, bool has_right, bool is_first) {
    const u32 lane = threadIdx.x % 32, of_four = lane % 4, source = of_four == 0 ? lane + 3 : lane - 1;
    u32 window[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      window[i] = __shfl_sync(0xffffffffu, of_four == 3 ? before[i] : word[i], source);
      window[4 + i] = word[i];
      before[i] = word[i];
    }
    if (count == 0) return;
    const u32 behind = u32(reinterpret_cast<u64>(to) / 2 % 8);  // elements that lie behind an aligned one
    const bool has_left = of_four > 0 || !is_first;
    const u32 own = columns_at_once - behind;  // of the aligned 16 bytes in which these columns begin
    if (count >= own && (has_left || behind == 0)) {
      u32 whole[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) whole[i] = at(window, own, i);
      Words<16>::put(to - behind, whole);
    } else if (count >= own) {
      write_first(to, word, own);
    } else {
#pragma unroll
      for (u32 i = 0; i < 8; ++i) {
        if (has_left && i >= own) to[i32(i) - 8] = half(window, i);
        if (i < own && i < count) to[i] = half(window, 8 + i);
      }
    }
    if (has_right) return;
    if (count == columns_at_once) {
      write_last(to + columns_at_once, word, behind);
      return;
    }
#pragma unroll
    for (u32 i = 1; i < 8; ++i)
      if (i >= own && i < count) to[i] = half(window, 8 + i);
  }

 private:
  // The first or last few of 8, by 2, 4 and 8 bytes: what is behind `count` of them, or before, is aligned to 16. (One by
  // one they were four fifths of the writes of a tile of 192 columns: 1024 x 50,257 x 768 took 204 us, and 50,304 columns
  // 129.)
  static __device__ __forceinline__ void write_first(u16* to, const u32 (&word)[4], u32 count) {
    const u32 is_odd = count & 1;
    if (is_odd) to[0] = u16(word[0]);
    if (count & 2) *reinterpret_cast<u32*>(to + is_odd) = is_odd ? from_second(word[0], word[1]) : word[0];
    if (count & 4) {
      const bool by_two = count & 2;
      const u32 a = by_two ? word[1] : word[0], b = by_two ? word[2] : word[1], c = by_two ? word[3] : word[2];
      const u32 both[2] = {is_odd ? from_second(a, b) : a, is_odd ? from_second(b, c) : b};
      Words<8>::put(to + count - 4, both);
    }
  }
  static __device__ __forceinline__ void write_last(u16* end, const u32 (&word)[4], u32 count) {
    const u32 is_odd = count & 1;
    if (count & 4) {
      const bool by_two = count & 2;
      const u32 a = by_two ? word[0] : word[1], b = by_two ? word[1] : word[2], c = by_two ? word[2] : word[3];
      const u32 both[2] = {is_odd ? from_second(a, b) : b, is_odd ? from_second(b, c) : c};
      Words<8>::put(end - count, both);
    }
    if (count & 2) *reinterpret_cast<u32*>(end - (count & 3)) = is_odd ? from_second(word[2], word[3]) : word[3];
    if (is_odd) end[-1] = u16(word[3] >> 16);
  }
  // Of four elements the two in the middle.
  static __device__ __forceinline__ u32 from_second(u32 low, u32 high) { return __funnelshift_r(low, high, 16); }

  // Words from element `first` on.
  static __device__ __forceinline__ u32 at(const u32 (&window)[8], u32 first, int i) {
    const u32 by_four = first & 4, by_two = first & 2;
    const auto pair = [&](int w) { return by_four ? window[w + 2 < 8 ? w + 2 : 7] : window[w]; };
    const auto here = [&](int w) { return by_two ? pair(w + 1) : pair(w); };
    return first == 8 ? window[4 + i] : __funnelshift_r(here(i), here(i + 1), first % 2 * 16);
  }
  static __device__ __forceinline__ u16 half(const u32 (&window)[8], u32 i) {
    return u16(window[i / 2] >> (i % 2 * 16));
  }
};

/// warps_m is a multiple of 4: so many warpgroups stand below each other, warps_n beside each other. B_BY_COLUMNS: see
/// Slices.
template <class TILE, bool B_BY_COLUMNS>
struct WarpgroupSums {
  static constexpr bool is_asynchronous = true;
  typedef typename TILE::T T;
  static constexpr int groups_m = TILE::warps_m / 4, groups_n = TILE::warps_n;
  static constexpr int group_m = TILE::m / groups_m, group_n = TILE::n / groups_n, blocks_m = group_m / 64;
  static constexpr u32 panel_bytes = TILE::bk * 128;  ///< of 64 columns of B, by columns
  static_assert(TILE::warps_m % 4 == 0 && TILE::warps_k == 1 && group_m % 64 == 0 && TILE::bk * sizeof(T) == 128);
  static_assert(!B_BY_COLUMNS || (group_n % 64 == 0 && sizeof(T) == 2));
  typedef typename TILE::Sum Sum;

  Sum d[blocks_m][group_n / 8][4];

  // (Where one warpgroup has the tile, others of the block have other tiles.)
  static __device__ __forceinline__ u32 group_row() {
    return groups_m == 1 ? 0 : threadIdx.x / 128 / groups_n * group_m;
  }
  static __device__ __forceinline__ u32 group_column() { return threadIdx.x / 128 % groups_n * group_n; }

  /// What this thread has copied may be multiplied after the next barrier.
  static __device__ __forceinline__ void show_slices() { show_to_matrix_units(); }
  /// Begins to multiply the slice.
  __device__ __forceinline__ void start(const unsigned char* stage, bool is_first) {
    const u32 here = shared_address(stage);
    const u64 a = matrix_descriptor(here + group_row() * 128);
    const u32 b_address = here + TILE::a_bytes + (B_BY_COLUMNS ? group_column() / 64 * panel_bytes : group_column() * 128);
    const u64 b = matrix_descriptor(b_address, B_BY_COLUMNS ? panel_bytes : 16);
    wgmma_fence();
#pragma unroll
    for (u32 step = 0; step < 4; ++step) {  // of 32 bytes of k; addresses count in 16 bytes
#pragma unroll
      for (u32 i = 0; i < blocks_m; ++i)
        add<B_BY_COLUMNS>(T{}, d[i], a + i * (64 * 128 / 16) + step * 2, b + step * (B_BY_COLUMNS ? 16 * 128 / 16 : 2),
                          step > 0 || !is_first);
    }
    wgmma_commit();
  }
  /// Not needed before start(): only where nothing is multiplied.
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < blocks_m; ++i)
#pragma unroll
      for (int j = 0; j < group_n / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) d[i][j][e] = 0;
  }
  /// Of the latest slices; their sums are not there yet.
  template <int slices>
  static __device__ __forceinline__ void wait_for_all_but() {
    wgmma_wait<slices>();
  }
  __device__ __forceinline__ void wait_for_all() {
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < blocks_m; ++i) keep_all(d[i]);
  }

  struct Lane {};

  /// The tile's sums to shared memory, ready for all threads.
  __device__ __forceinline__ void put(Sum* to) const {
    const u32 lane = threadIdx.x % 32;
    const u32 m0 = group_row() + threadIdx.x / 32 % 4 * 16 + lane / 4, n0 = group_column() + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < blocks_m; ++i)
#pragma unroll
      for (int j = 0; j < group_n / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Sum pair[2] = {d[i][j][half * 2], d[i][j][half * 2 + 1]};
          store(to + (m0 + i * 64 + half * 8) * TILE::sum_pitch + n0 + j * 8, pair);
        }
    __syncthreads();
  }

  /// Waits for the sums, and does with them from where they are what comes behind. Rows of the next 32 columns are read
  /// while these are finished. There is a slice at least.
  template <class Finish>
  __device__ __forceinline__ void finish(const ContractParameters& p, u32 z, u32 row0, u32 column0) {
    static_assert(TILE::from_registers && group_n % 32 == 0);
    constexpr int parts = group_n / 32, lines = 2 * blocks_m;  // of a lane: rows
    const u32 lane = threadIdx.x % 32;
    const u32 first_row = row0 + group_row() + threadIdx.x / 32 % 4 * 16 + lane / 4;
    const u32 first_column = column0 + group_column() + lane % 4 * columns_at_once;
    typename Finish::OfColumns of_columns;
    typename Finish::OfRow of_row[2][lines];
    const auto count_of = [&](u32 column) {
      return Finish::aligned || p.n - column > columns_at_once ? columns_at_once : p.n - column;
    };
    const auto row_of = [&](int line) { return first_row + line / 2 * 64 + line % 2 * 8; };
    const auto load_columns_of = [&](int part) {
      const u32 column = first_column + part * 32;
      if (column < p.n) of_columns.load(p, z * p.c_column_step + column, count_of(column));
    };
    const auto load_rows_of = [&](int part) {
      const u32 column = first_column + part * 32;
      if (column >= p.n) return;
#pragma unroll
      for (int line = 0; line < lines; ++line)
        if (row_of(line) < p.m)
          of_row[part % 2][line].load(p, z * p.c_row_step + row_of(line), z * p.c_column_step + column,
                                      count_of(column));
    };
    load_columns_of(0);
    load_rows_of(0);
    wait_for_all();
    constexpr bool writes_anywhere = !Finish::aligned && Finish::gives_halves;
    AlignedWrites writes[writes_anywhere ? lines : 1];
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      if (part > 0) load_columns_of(part);
      if (part + 1 < parts) load_rows_of(part + 1);
      const u32 column = first_column + part * 32;
#pragma unroll
      for (int line = 0; line < lines; ++line) {
        const bool exists = row_of(line) < p.m && column < p.n;
        if (!writes_anywhere && !exists) continue;
        Sum v[columns_at_once];
#pragma unroll
        for (int e = 0; e < columns_at_once; ++e) v[e] = d[line / 2][part * 4 + e / 2][line % 2 * 2 + e % 2];
        const u32 row = z * p.c_row_step + row_of(line), result_column = z * p.c_column_step + column;
        if constexpr (writes_anywhere) {
          HoldHalves held = {};
          if (exists) Finish::run(p, v, of_columns, of_row[part % 2][line], row, result_column, count_of(column), held);
          const bool has_right = (lane % 4 < 3 || part + 1 < parts) && column + columns_at_once < p.n;
          writes[line].write(static_cast<u16*>(p.c) + u64(row) * p.c_row + result_column, held.word,
                             exists ? count_of(column) : 0, has_right, part == 0);
        } else {
          Finish::run(p, v, of_columns, of_row[part % 2][line], row, result_column, count_of(column));
        }
      }
    }
  }

 private:
  template <bool BY_COLUMNS>
  static __device__ __forceinline__ void add(f16, float (&sums)[group_n / 8][4], u64 a, u64 b, bool adds) {
    wgmma_f16<BY_COLUMNS>(sums, a, b, adds);
  }
  template <bool BY_COLUMNS>
  static __device__ __forceinline__ void add(bf16, float (&sums)[group_n / 8][4], u64 a, u64 b, bool adds) {
    wgmma_bf16<BY_COLUMNS>(sums, a, b, adds);
  }
  template <bool>
  static __device__ __forceinline__ void add(f8e4m3, float (&sums)[group_n / 8][4], u64 a, u64 b, bool adds) {
    wgmma_e4m3(sums, a, b, adds);
  }
  template <bool>
  static __device__ __forceinline__ void add(f8e5m2, float (&sums)[group_n / 8][4], u64 a, u64 b, bool adds) {
    wgmma_e5m2(sums, a, b, adds);
  }
  template <bool>
  static __device__ __forceinline__ void add(i8, i32 (&sums)[group_n / 8][4], u64 a, u64 b, bool adds) {
    wgmma_signed(sums, a, b, adds);
  }
  template <bool>
  static __device__ __forceinline__ void add(u8, i32 (&sums)[group_n / 8][4], u64 a, u64 b, bool adds) {
    wgmma_unsigned(sums, a, b, adds);
  }
};

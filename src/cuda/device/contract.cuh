// Matrix products and convolutions (implicit GEMM). A block computes a tile: slices of A and B pass through a ring of
// stages in shared memory; what comes after the sum is Finish, on 8 columns at a time.

/// SUMS: how slices are multiplied. The others: see Slices.
template <class TILE, class WINDOW, bool B_BY_COLUMNS, bool ALIGNED, class SUMS, class Finish>
struct Contract {
  static constexpr int BM = TILE::m, BN = TILE::n, STAGES = TILE::stages, threads = TILE::threads;
  static constexpr int sum_pitch = TILE::sum_pitch;
  typedef Slices<TILE, WINDOW, B_BY_COLUMNS, ALIGNED> Copies;

  // What the epilogue reads of each column, where no kernel before writes it and sums leave registers for it: from
  // memory it takes half a microsecond, which would else come behind the sums (BERT, 128 tokens: 381 us, now 372).
  static constexpr bool holds_columns = Finish::columns_are_constant && BM * BN / threads <= 64;

  /// Multiplies slices first to end - 1.
  static __device__ __forceinline__ void multiply_slices(SUMS& sums, Copies& slices, unsigned char* shared, u32 first,
                                                         u32 end, u32 z, typename Finish::OfColumns& of_columns) {
    // Slices on their way while one is multiplied. What multiplies beside the threads' own work may still read the one
    // before it.
    constexpr int ahead = SUMS::is_asynchronous && !TILE::waits ? STAGES - 2 : STAGES - 1;
    static_assert(ahead >= 1, "a ring of more stages is needed");
    const ContractParameters& p = slices.p;
    if (p.b_is_constant) {
#pragma unroll 1
      for (u32 s = 0; s < ahead && first + s < end; ++s) slices.copy_b(slices.stage_b(s), first + s);
    }
    if constexpr (holds_columns) load_columns_of_thread(of_columns, p, z, slices.column0);
    wait_for_previous();
#pragma unroll
    for (int s = 0; s < ahead; ++s) {
      if (first + s < end) {
        slices.copy_a(slices.stage_a(s), first + s);
        if (!p.b_is_constant) slices.copy_b(slices.stage_b(s), first + s);
      }
      copy_async_commit();
    }
    typename Finish::OfBlock of_block;
    of_block.load(p, slices.row0, p.m);
    if (p.fetches && blockIdx.y == 0) {
      const u32 rows = p.m - slices.row0 < BM ? p.m - slices.row0 : BM;
      Finish::template fetch<BN, threads>(p, z * p.c_row_step + slices.row0, z * p.c_column_step + slices.column0, rows,
                                          p.n - slices.column0);
    }
    const typename SUMS::Lane lane;
    u32 from = 0, to = ahead;  // stages
#pragma unroll 1
    for (u32 k_tile = first; k_tile < end; ++k_tile) {
      copy_async_wait<ahead - 1>();
      if constexpr (SUMS::is_asynchronous && TILE::waits) SUMS::template wait_for_all_but<0>();
      if constexpr (SUMS::is_asynchronous) SUMS::show_slices();
      __syncthreads();
      if constexpr (SUMS::is_asynchronous) sums.start(shared + from * TILE::stage_bytes, k_tile == first);
      if (k_tile + ahead < end) {
        slices.copy_a(slices.stage_a(to), k_tile + ahead);
        slices.copy_b(slices.stage_b(to), k_tile + ahead);
      }
      copy_async_commit();
      if constexpr (SUMS::is_asynchronous) {
        if (!TILE::waits) SUMS::template wait_for_all_but<1>();
      } else {
        sums.multiply(lane, shared + from * TILE::stage_bytes);
      }
      from = from + 1 == STAGES ? 0 : from + 1;
      to = to + 1 == STAGES ? 0 : to + 1;
    }
    // Not before: the next kernel's blocks would wait in the room that this one's need (ResNet-50: 0.49 ms, not 0.43).
    let_next_start();
    of_block.put(p);
    if constexpr (SUMS::is_asynchronous) {
      sums.wait_for_all();
      if (first >= end) sums.clear();
    }
  }

  // Of the way out: each thread has 8 columns, of every so manieth row.
  static constexpr u32 threads_a_row = BN / columns_at_once, rows_of_threads = threads / threads_a_row;
  static constexpr int rows_of_thread = BM > int(rows_of_threads) ? BM / int(rows_of_threads) : 1;
  static constexpr int rows_at_once = rows_of_thread < Finish::rows_at_once ? rows_of_thread : Finish::rows_at_once;
  static_assert(threads % threads_a_row == 0 && rows_of_thread % rows_at_once == 0);

  /// Rows that all threads finish together: of several blocks of a cluster, each takes every so manieth group of them.
  static constexpr u32 group_rows = BM < int(rows_of_threads) ? BM : rows_of_threads;

  /// Where a tile's sums are: in shared memory, or in global memory those of several blocks.
  struct Sums {
    const float* first;
    u32 pitch, parts, part;  ///< floats from row to row; how many are added up, and floats from one to the next

    /// 8 columns from c on of row r, added up in the order of the parts.
    __device__ __forceinline__ void get(u32 r, u32 c, float (&v)[columns_at_once]) const {
      const float* here = first + i64(r) * pitch + c;
      if (parts == 1) {
        load_floats(here, v);
        return;
      }
#pragma unroll
      for (int i = 0; i < columns_at_once; ++i) v[i] = 0;
      // Four parts at once: what is in memory takes hundreds of cycles to come.
      constexpr u32 at_once = 4;
#pragma unroll 1
      for (u32 first_part = 0; first_part < parts; first_part += at_once) {
        float some[at_once][columns_at_once] = {};
#pragma unroll
        for (u32 j = 0; j < at_once; ++j)
          if (first_part + j < parts) load_floats(here + i64(first_part + j) * part, some[j]);
#pragma unroll
        for (u32 j = 0; j < at_once; ++j)
#pragma unroll
          for (int i = 0; i < columns_at_once; ++i) v[i] += some[j][i];
      }
    }

   private:
    static __device__ __forceinline__ void load_floats(const float* from, float (&v)[columns_at_once]) {
      const float4 low = *reinterpret_cast<const float4*>(from), high = *reinterpret_cast<const float4*>(from + 4);
      v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
      v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
    }
  };

#if __CUDA_ARCH__ >= 900
  /// Gives each block of the cluster this one's part of the rows that it finishes, behind its ring: [group][block][row].
  static __device__ __forceinline__ void give_away(const float* staged, u32 parts, u32 split, u32 splits) {
    constexpr u32 chunks = BN / 4, rows_at_once = threads / chunks, groups = BM / group_rows;
    constexpr u32 rows = (group_rows + rows_at_once - 1) / rows_at_once;  // of a group and a thread
    const u32 c = threadIdx.x % chunks * 4, first_row = threadIdx.x / chunks;
    float4 mine[groups][rows];
#pragma unroll
    for (u32 e = 0; e < groups * rows; ++e) {
      const u32 r = first_row + e % rows * rows_at_once;
      if (r < group_rows)
        mine[e / rows][e % rows] =
            *reinterpret_cast<const float4*>(staged + (e / rows * group_rows + r) * sum_pitch + c);
    }
    u32 block = 0, turn = 0;
#pragma unroll
    for (u32 group = 0; group < groups; ++group) {
#pragma unroll
      for (u32 i = 0; i < rows; ++i) {
        const u32 r = first_row + i * rows_at_once;
        if (r < group_rows)
          store_to_cluster(parts + (((turn * splits + split) * group_rows + r) * sum_pitch + c) * 4, block,
                           mine[group][i]);
      }
      if (++block == splits) block = 0, ++turn;
    }
  }
#endif

  static __device__ __forceinline__ void run(const ContractParameters& p) {
    DYNAMIC_SHARED(shared);
    const u32 z = p.tiles.quotient(blockIdx.x), tile = blockIdx.x - z * p.tiles.value;
    const u32 split = blockIdx.y, splits = gridDim.y;
    const u32 first = split * p.k_tiles_per_split;
    const u32 end = first + p.k_tiles_per_split < p.k_tiles ? first + p.k_tiles_per_split : p.k_tiles;
#if __CUDA_ARCH__ >= 900
    if (p.is_cluster) cluster_arrive();
#endif
    Copies slices(p, shared);
    slices.move_to(z, tile, first);
    SUMS sums;
    if (!SUMS::is_asynchronous) sums.clear();
    typename Finish::OfColumns of_columns;
    multiply_slices(sums, slices, shared, first, end, z, of_columns);
    copy_async_wait<0>();
    __syncthreads();
    float* staged = reinterpret_cast<float*>(shared);
    sums.put(staged);
    Sums all = {staged, sum_pitch, 1, 0};
    u32 r = threadIdx.x / threads_a_row, row_step = rows_of_threads;
    if (splits > 1) {
      all.parts = splits;
      if (p.is_cluster) {
        // Each block finishes its groups of rows, with the sums of all. (Those of others are written to where they are
        // needed: reading them there took a microsecond, and another barrier.)
#if __CUDA_ARCH__ >= 900
        float* parts = reinterpret_cast<float*>(shared + p.parts);
        cluster_wait();  // all have begun, long ago
        give_away(staged, shared_address(parts), split, splits);
        cluster_arrive();
        cluster_wait();
        all.first = parts - i64(split) * (group_rows * sum_pitch);
        all.part = group_rows * sum_pitch;
#endif
        r += split * rows_of_threads;
        row_step *= splits;
      } else {
        // Each block leaves its sums; the last of a tile adds them up, always in the same order.
        float* partial = p.partial + i64(blockIdx.x) * splits * (BM * BN);
        for (u32 e = threadIdx.x; e < BM * BN / 4; e += threads) {
          const u32 row = e / (BN / 4), c = e % (BN / 4) * 4;
          *reinterpret_cast<float4*>(partial + split * (BM * BN) + e * 4) =
              *reinterpret_cast<const float4*>(staged + row * sum_pitch + c);
        }
        __threadfence();
        __syncthreads();
        u32* turn = reinterpret_cast<u32*>(shared);
        if (threadIdx.x == 0) *turn = atomicAdd(p.counters + blockIdx.x, 1u);
        __syncthreads();
        if (*turn + 1 != splits) return;
        __threadfence();
        if (threadIdx.x == 0) p.counters[blockIdx.x] = 0;
        all.first = partial;
        all.pitch = BN;
        all.part = BM * BN;
      }
    }
    if constexpr (!holds_columns) load_columns_of_thread(of_columns, p, z, slices.column0);
    finish(p, all, of_columns, z, slices.row0, slices.column0, r, row_step);
  }

  static __device__ __forceinline__ u32 count_of_columns(const ContractParameters& p, u32 first) {
    const u32 left = p.n - first;
    return Finish::aligned || left > columns_at_once ? columns_at_once : left;
  }
  static __device__ __forceinline__ void load_columns_of_thread(typename Finish::OfColumns& of_columns,
                                                                const ContractParameters& p, u32 z, u32 column0) {
    const u32 first = column0 + threadIdx.x % threads_a_row * columns_at_once;
    if (first < p.n) of_columns.load(p, z * p.c_column_step + first, count_of_columns(p, first));
  }

  /// Rows r, r + row_step, … of the tile, in this thread's columns.
  static __device__ __forceinline__ void finish(const ContractParameters& p, const Sums& sums,
                                                const typename Finish::OfColumns& of_columns, u32 z, u32 row0,
                                                u32 column0, u32 r, u32 row_step) {
    const u32 c = threadIdx.x % threads_a_row * columns_at_once;
    if (column0 + c >= p.n) return;
    const u32 count = count_of_columns(p, column0 + c), column = z * p.c_column_step + column0 + c;
    const u32 rows = p.m - row0 < BM ? p.m - row0 : BM, first_row = z * p.c_row_step + row0;
#pragma unroll 1
    for (; r < rows; r += row_step * rows_at_once) {
      // What is read of all rows is under way before anything is written: memory is half a microsecond away.
      typename Finish::OfRow of_row[rows_at_once];
#pragma unroll
      for (int i = 0; i < rows_at_once; ++i)
        if (r + i * row_step < rows) of_row[i].load(p, first_row + r + i * row_step, column, count);
#pragma unroll
      for (int i = 0; i < rows_at_once; ++i) {
        if (r + i * row_step >= rows) continue;
        float v[columns_at_once];
        sums.get(r + i * row_step, c, v);
        Finish::run(p, v, of_columns, of_row[i], first_row + r + i * row_step, column, count);
      }
    }
  }
};

// What becomes of the sums of a block's tile: those of the blocks that share it are added up, and Finish gets them, 8
// columns of a row at a time.

template <class TILE, class Finish>
struct TileFinish {
  static constexpr int BM = TILE::m, BN = TILE::n, threads = TILE::threads, sum_pitch = TILE::sum_pitch;
  typedef typename TILE::Sum Sum;

  // Each thread has 8 columns, of every so manieth row.
  static constexpr u32 threads_a_row = BN / columns_at_once, rows_of_threads = threads / threads_a_row;
  static constexpr int rows_of_thread = BM > int(rows_of_threads) ? BM / int(rows_of_threads) : 1;
  static constexpr int rows_at_once = rows_of_thread < Finish::rows_at_once ? rows_of_thread : Finish::rows_at_once;
  static_assert(threads % threads_a_row == 0 && rows_of_thread % rows_at_once == 0);

  /// Rows that all threads finish together: of several blocks of a cluster, each takes every so manieth group of them.
  static constexpr u32 group_rows = BM < int(rows_of_threads) ? BM : rows_of_threads;

  /// Where a tile's sums are: in shared memory, or in global memory those of several blocks.
  struct Sums {
    const Sum* first;
    u32 pitch, parts, part;  ///< sums from row to row; how many are added up, and sums from one to the next

    /// 8 columns from c on of row r, added up in the order of the parts.
    __device__ __forceinline__ void get(u32 r, u32 c, Sum (&v)[columns_at_once]) const {
      const Sum* here = first + i64(r) * pitch + c;
      if (parts == 1) {
        load(here, v);
        return;
      }
#pragma unroll
      for (int i = 0; i < columns_at_once; ++i) v[i] = 0;
      // Four parts at once: what is in memory takes hundreds of cycles to come.
      constexpr u32 at_once = 4;
#pragma unroll 1
      for (u32 first_part = 0; first_part < parts; first_part += at_once) {
        Sum some[at_once][columns_at_once] = {};
#pragma unroll
        for (u32 j = 0; j < at_once; ++j)
          if (first_part + j < parts) load(here + i64(first_part + j) * part, some[j]);
#pragma unroll
        for (u32 j = 0; j < at_once; ++j)
#pragma unroll
          for (int i = 0; i < columns_at_once; ++i) v[i] += some[j][i];
      }
    }
  };

#if __CUDA_ARCH__ >= 900
  /// Gives each block of the cluster this one's part of the rows that it finishes, behind its ring: [group][block][row].
  static __device__ __forceinline__ void give_away(const Sum* staged, u32 parts, u32 split, u32 splits) {
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

  /// Adds up the sums of the blocks that share a tile; `all` are this one's, staged in `shared`, and then those of all, of
  /// which this thread has rows r, r + row_step, …. False where another block finishes the tile.
  static __device__ __forceinline__ bool add_up(const ContractParameters& p, unsigned char* shared, u32 split,
                                                u32 splits, Sums& all, u32& r, u32& row_step) {
    all.parts = splits;
    if (p.is_cluster) {
      // Each block finishes its groups of rows, with the sums of all. (Those of others are written to where they are
      // needed: reading them there took a microsecond, and another barrier.)
#if __CUDA_ARCH__ >= 900
      Sum* parts = reinterpret_cast<Sum*>(shared + p.parts);
      cluster_wait();  // all have begun, long ago
      give_away(all.first, shared_address(parts), split, splits);
      cluster_arrive();
      cluster_wait();
      all.first = parts - i64(split) * (group_rows * sum_pitch);
      all.part = group_rows * sum_pitch;
#endif
      r += split * rows_of_threads;
      row_step *= splits;
    } else {
      // Each block leaves its sums; the last of a tile adds them up, always in the same order.
      Sum* partial = static_cast<Sum*>(p.partial) + i64(blockIdx.x) * splits * (BM * BN);
      for (u32 e = threadIdx.x; e < BM * BN / 4; e += threads) {
        const u32 row = e / (BN / 4), c = e % (BN / 4) * 4;
        *reinterpret_cast<float4*>(partial + split * (BM * BN) + e * 4) =
            *reinterpret_cast<const float4*>(all.first + row * sum_pitch + c);
      }
      __threadfence();
      __syncthreads();
      u32* turn = reinterpret_cast<u32*>(shared);
      if (threadIdx.x == 0) *turn = atomicAdd(p.counters + blockIdx.x, 1u);
      __syncthreads();
      if (*turn + 1 != splits) return false;
      __threadfence();
      if (threadIdx.x == 0) p.counters[blockIdx.x] = 0;
      all.first = partial;
      all.pitch = BN;
      all.part = BM * BN;
    }
    return true;
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
        Sum v[columns_at_once];
        sums.get(r + i * row_step, c, v);
        Finish::run(p, v, of_columns, of_row[i], first_row + r + i * row_step, column, count);
      }
    }
  }
};

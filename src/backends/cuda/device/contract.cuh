// Matrix products and convolutions (implicit GEMM). A block computes a tile: slices of A and B pass through a ring of
// stages in shared memory (contract_slices.cuh), sums stay in registers (contract_sums.cuh, contract_warpgroup.cuh), and
// what comes after them is Finish (contract_finish.cuh).

/// SUMS: how slices are multiplied. COPIES: what brings them (Slices, or StepSlices).
template <class TILE, class COPIES, class SUMS, class Finish>
struct Contract {
  static constexpr int BM = TILE::m, BN = TILE::n, STAGES = TILE::stages, threads = TILE::threads;
  typedef COPIES Copies;

  // What the epilogue reads of each column, where no kernel before writes it and sums leave registers for it: from
  // memory it takes half a microsecond, which would else come behind the sums (BERT, 128 tokens: 381 us, now 372).
  static constexpr bool holds_columns =
      Finish::columns_are_constant && BM * BN / threads <= 64 && !TILE::from_registers;

  /// Multiplies slices first to end - 1.
  static __device__ __forceinline__ void multiply_slices(SUMS& sums, Copies& slices, unsigned char* shared, u32 first,
                                                         u32 end, u32 z, typename Finish::OfColumns& of_columns) {
    // Slices on their way while one is multiplied. What multiplies beside the threads' own work may still read the one
    // before it.
    constexpr int ahead = SUMS::is_asynchronous && !TILE::waits ? STAGES - 2 : STAGES - 1;
    static_assert(ahead >= 1, "a ring of more stages is needed");
    const ContractParameters& p = slices.p;
    if (p.b_is_constant) {
      slices.begin(first, end, ahead);
#pragma unroll 1
      for (u32 s = 0; s < ahead && first + s < end; ++s) slices.copy_b(slices.stage_b(s), first + s);
    }
    if constexpr (holds_columns)
      TileFinish<TILE, Finish>::load_columns_of_thread(of_columns, p, z, slices.column0);
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
    if constexpr (SUMS::is_asynchronous && !TILE::from_registers) {
      sums.wait_for_all();
      if (first >= end) sums.clear();
    }
  }

  static __device__ __forceinline__ void run(const ContractParameters& p) {
    DYNAMIC_SHARED(shared);
    const u32 z = divide(blockIdx.x, p.tiles), tile = blockIdx.x - z * p.tiles.value;
    const u32 split = blockIdx.y;
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
    if constexpr (TILE::from_registers) {
      sums.template finish<Finish>(p, z, slices.row0, slices.column0);
    } else {
      copy_async_wait<0>();
      __syncthreads();
      finish_staged(sums, shared, of_columns, slices, z);
    }
  }

 private:
  /// What comes behind the sums, which pass through shared memory.
  static __device__ __forceinline__ void finish_staged(const SUMS& sums, unsigned char* shared,
                                                       typename Finish::OfColumns& of_columns, const Copies& slices,
                                                       u32 z) {
    typedef TileFinish<TILE, Finish> Way;  // out
    const ContractParameters& p = slices.p;
    const u32 split = blockIdx.y, splits = gridDim.y;
    auto* staged = reinterpret_cast<typename TILE::Sum*>(shared);
    sums.put(staged);
    typename Way::Sums all = {staged, TILE::sum_pitch, 1, 0};
    u32 r = threadIdx.x / Way::threads_a_row, row_step = Way::rows_of_threads;
    if (splits > 1 && !Way::add_up(p, shared, split, splits, all, r, row_step)) return;
    if constexpr (!holds_columns) Way::load_columns_of_thread(of_columns, p, z, slices.column0);
    Way::finish(p, all, of_columns, z, slices.row0, slices.column0, r, row_step);
  }
};

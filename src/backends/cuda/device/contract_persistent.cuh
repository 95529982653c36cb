// Contractions whose blocks stay: one for each multiprocessor takes one tile after the other. A warpgroup copies slices
// for two others, which take the tiles in turn: while one finishes its tile, the other one multiplies. (CUTLASS calls this
// "ping-pong".) What the groups tell each other are phases of barriers, two for each stage of the ring.

/// The tile that a block works on.
struct TilePlace {
  u32 z, row0, column0;
};
/// That of this number among all. CLUSTER blocks have tiles below each other.
template <class TILE, u32 CLUSTER>
__device__ __forceinline__ TilePlace place_of_tile(const ContractParameters& p, u32 at) {
  const u32 z = CLUSTER > 1 ? 0 : divide(at, p.tiles), tile = at - z * p.tiles.value;
  const u32 panel = divide(tile, p.panels.tiles), in_panel = tile - panel * p.panels.tiles.value;
  const Divisor rows = panel + 1 == p.panels.count ? p.panels.last_rows : p.panels.rows;
  const u32 column = divide(in_panel, rows), row = panel * p.panels.rows.value + in_panel - column * rows.value;
  return {z, (row * CLUSTER + (CLUSTER > 1 ? blockIdx.y : 0)) * TILE::m, column * TILE::n};
}

constexpr u32 group_threads = 128;

/// Slices that the threads of a warpgroup copy.
template <class TILE, class SLICES>
struct ThreadCopies {
  static constexpr u32 cluster = 1, threads = group_threads;
  static constexpr u32 arrivals = SLICES::stores ? 2 * group_threads : group_threads;  ///< of each slice

  SLICES slices;

  __device__ __forceinline__ ThreadCopies(const ContractParameters& p, const TensorMaps&, unsigned char* shared)
      : slices(p, shared) {}
  __device__ __forceinline__ void move_to(const TilePlace& place) { slices.move_to(place.z, place.row0, place.column0, 0); }
  __device__ __forceinline__ void copy(u64* full, u32 stage, u32 k_tile) {
    slices.copy_a(slices.stage_a(stage), k_tile);
    slices.copy_b(slices.stage_b(stage), k_tile);
    phase_barrier_arrive_behind_copies(full);
    if (SLICES::stores) phase_barrier_arrive(full);
  }
};

/// Slices that the tensor memory accelerator copies, asked by one thread: of one product of whole matrices. CLUSTER blocks
/// have tiles below each other, whose slices of B are the same: each copies a part of them for all.
template <class TILE, u32 CLUSTER>
struct TensorCopies {
  static constexpr u32 cluster = CLUSTER, threads = 1, arrivals = 1;
  static constexpr u32 b_parts = TILE::n / 32 / CLUSTER;  ///< of 32 columns
  static_assert(TILE::n % (32 * CLUSTER) == 0);

  const TensorMaps& maps;
  unsigned char* shared;
  TilePlace at;

  __device__ __forceinline__ TensorCopies(const ContractParameters&, const TensorMaps& of_operands, unsigned char* memory)
      : maps(of_operands), shared(memory) {}
  __device__ __forceinline__ void move_to(const TilePlace& place) { at = place; }
  __device__ __forceinline__ void copy(u64* full, u32 stage, u32 k_tile) {
    unsigned char* const to = shared + stage * TILE::stage_bytes;
    const i32 k = i32(k_tile * TILE::bk), part = CLUSTER > 1 ? i32(blockIdx.y * b_parts) : 0;
    phase_barrier_expect(full, TILE::stage_bytes);
    tensor_copy(to, &maps.a, full, k, i32(at.row0));
    tensor_copy_to_all<CLUSTER>(to + TILE::a_bytes + part * (32 * 128), &maps.b, full, k, 0, 0, 0,
                                i32(at.column0 / 32) + part);
  }
};

/// COPIES: what brings slices.
template <class TILE, class COPIES, class SUMS, class Finish>
struct PersistentContract {
  static constexpr u32 stages = TILE::stages, groups_that_multiply = 2, warps = group_threads / 32;
  static_assert(TILE::threads == group_threads && TILE::from_registers);

  // Of a thread. All begin with as many as 384 threads can have, 168; those that copy give some of theirs away, and most of
  // them where one asks for copies.
  static constexpr int registers_of_copies = COPIES::threads == 1 ? 24 : 88;
  static constexpr int registers_of_sums = COPIES::threads == 1 ? 240 : 208;

  static __device__ __forceinline__ void run(const ContractParameters& p, const TensorMaps& maps) {
    DYNAMIC_SHARED(shared);
    u64* const full = reinterpret_cast<u64*>(shared + stages * TILE::stage_bytes);
    u64 *const empty = full + stages, *const turn = empty + stages;
    if (threadIdx.x == 0) {
#pragma unroll
      for (u32 s = 0; s < stages; ++s) {
        phase_barrier_begin(full + s, COPIES::arrivals);
        phase_barrier_begin(empty + s, COPIES::cluster * warps);
      }
      phase_barrier_begin(turn, warps);
      phase_barrier_begin(turn + 1, warps);
      show_phase_barriers();
    }
    __syncthreads();
    meet();
    wait_for_previous();
    if (threadIdx.x < group_threads) {
      give_registers<registers_of_copies>();
      // (Threads that do not arrive must not wait: they may miss two phases.)
      if (threadIdx.x < COPIES::threads) copy_tiles(p, maps, shared, full, empty);
      __syncwarp();
    } else {
      take_registers<registers_of_sums>();
      multiply_tiles(p, shared, full, empty, turn);
    }
    meet();  // others may yet arrive at this block's barriers
  }

 private:
  // The blocks of a cluster are all there, or done.
  static __device__ __forceinline__ void meet() {
    if constexpr (COPIES::cluster > 1) {
      cluster_arrive();
      cluster_wait();
    }
  }

  static __device__ __forceinline__ void copy_tiles(const ContractParameters& p, const TensorMaps& maps,
                                                    unsigned char* shared, u64* full, u64* empty) {
    COPIES copies(p, maps, shared);
    u32 stage = 0, phase = 1;  // what has not begun has ended a phase before
#pragma unroll 1
    for (u32 at = blockIdx.x; at < p.all_tiles; at += gridDim.x) {
      copies.move_to(place_of_tile<TILE, COPIES::cluster>(p, at));
#pragma unroll 1
      for (u32 k_tile = 0; k_tile < p.k_tiles; ++k_tile) {
        phase_barrier_wait(empty + stage, phase);
        copies.copy(full + stage, stage, k_tile);
        if (++stage == stages) {
          stage = 0;
          phase ^= 1;
        }
      }
    }
    let_next_start();
  }

  static __device__ __forceinline__ void multiply_tiles(const ContractParameters& p, unsigned char* shared, u64* full,
                                                        u64* empty, u64* turn) {
    const u32 own = threadIdx.x / group_threads - 1, lane = threadIdx.x % 32;
    // All blocks of the cluster copy into this stage of all.
    const auto release = [&](u32 stage) {
      __syncwarp();
      if (lane < COPIES::cluster) phase_barrier_arrive_at<COPIES::cluster>(empty + stage, lane);
    };
    SUMS sums;
    u32 slice = own * p.k_tiles;  // of all that the block copies
    u32 turn_phase = own ^ 1;     // the first group begins
#pragma unroll 1
    for (u32 at = blockIdx.x + own * gridDim.x; at < p.all_tiles; at += groups_that_multiply * gridDim.x) {
      u32 stage = slice % stages, phase = slice / stages & 1, before = 0;
      // Only then have the slices come that were in these stages before: of a barrier one sees no more than two phases.
      phase_barrier_wait(turn + own, turn_phase);
      turn_phase ^= 1;
#pragma unroll 1
      for (u32 k_tile = 0; k_tile < p.k_tiles; ++k_tile) {
        phase_barrier_wait(full + stage, phase);
        if constexpr (COPIES::arrivals > 1) SUMS::show_slices();
        sums.start(shared + stage * TILE::stage_bytes, k_tile == 0);
        SUMS::template wait_for_all_but<1>();
        if (k_tile > 0) release(before);
        before = stage;
        if (++stage == stages) {
          stage = 0;
          phase ^= 1;
        }
      }
      __syncwarp();
      if (lane == 0) phase_barrier_arrive(turn + (own ^ 1));
      sums.wait_for_all();
      release(before);
      const TilePlace place = place_of_tile<TILE, COPIES::cluster>(p, at);
      sums.template finish<Finish>(p, place.z, place.row0, place.column0);
      slice += groups_that_multiply * p.k_tiles;
    }
  }
};

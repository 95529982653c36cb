// Contractions whose blocks stay: one for each multiprocessor takes one tile after the other. A warpgroup copies slices
// for two others, which take the tiles in turn: while one finishes its tile, the other one multiplies. (CUTLASS calls this
// "ping-pong".) What the groups tell each other are phases of barriers, two for each stage of the ring.

template <class TILE, class COPIES, class SUMS, class Finish>
struct PersistentContract {
  static constexpr u32 stages = TILE::stages, group = 128, groups_that_multiply = 2;
  static_assert(TILE::threads == group && TILE::from_registers);

  // Of a thread. All begin with as many as 384 threads can have, 168; those that copy give some of theirs away.
  static constexpr int registers_of_copies = 88, registers_of_sums = 208;

  static __device__ __forceinline__ void run(const ContractParameters& p) {
    DYNAMIC_SHARED(shared);
    __shared__ u64 full[stages], empty[stages], turn[groups_that_multiply];
    if (threadIdx.x == 0) {
#pragma unroll
      for (u32 s = 0; s < stages; ++s) {
        phase_barrier_begin(full + s, COPIES::stores ? 2 * group : group);
        phase_barrier_begin(empty + s, group / 32);
      }
      phase_barrier_begin(turn, group / 32);
      phase_barrier_begin(turn + 1, group / 32);
    }
    __syncthreads();
    wait_for_previous();
    if (threadIdx.x < group) {
      give_registers<registers_of_copies>();
      copy_tiles(p, shared, full, empty);
    } else {
      take_registers<registers_of_sums>();
      multiply_tiles(p, shared, full, empty, turn);
    }
  }

 private:
  static __device__ __forceinline__ void copy_tiles(const ContractParameters& p, unsigned char* shared, u64* full,
                                                    u64* empty) {
    COPIES slices(p, shared);
    u32 stage = 0, phase = 1;  // what has not begun has ended a phase before
#pragma unroll 1
    for (u32 at = blockIdx.x; at < p.all_tiles; at += gridDim.x) {
      const u32 z = divide(at, p.tiles);
      slices.move_to(z, at - z * p.tiles.value, 0);
#pragma unroll 1
      for (u32 k_tile = 0; k_tile < p.k_tiles; ++k_tile) {
        phase_barrier_wait(empty + stage, phase);
        slices.copy_a(slices.stage_a(stage), k_tile);
        slices.copy_b(slices.stage_b(stage), k_tile);
        phase_barrier_arrive_behind_copies(full + stage);
        if (COPIES::stores) phase_barrier_arrive(full + stage);
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
    const u32 own = threadIdx.x / group - 1;
    const auto tell = [&](u64* barrier) {
      if (threadIdx.x % 32 == 0) phase_barrier_arrive(barrier);
    };
    SUMS sums;
    u32 turn_phase = own ^ 1;  // the first group begins
    u32 slice = own * p.k_tiles;  // of all that the block copies
#pragma unroll 1
    for (u32 at = blockIdx.x + own * gridDim.x; at < p.all_tiles; at += groups_that_multiply * gridDim.x) {
      u32 stage = slice % stages, phase = slice / stages & 1, before = 0;
      // Only then have the slices come that were in these stages before: of a barrier one sees no more than two phases.
      phase_barrier_wait(turn + own, turn_phase);
      turn_phase ^= 1;
#pragma unroll 1
      for (u32 k_tile = 0; k_tile < p.k_tiles; ++k_tile) {
        phase_barrier_wait(full + stage, phase);
        SUMS::show_slices();
        sums.start(shared + stage * TILE::stage_bytes, k_tile == 0);
        SUMS::template wait_for_all_but<1>();
        if (k_tile > 0) tell(empty + before);
        before = stage;
        if (++stage == stages) {
          stage = 0;
          phase ^= 1;
        }
      }
      tell(turn + (own ^ 1));
      sums.wait_for_all();
      tell(empty + before);
      const u32 z = divide(at, p.tiles), tile = at - z * p.tiles.value, tile_m = divide(tile, p.tiles_n);
      sums.template finish<Finish>(p, z, tile_m * TILE::m, (tile - tile_m * p.tiles_n.value) * TILE::n);
      slice += groups_that_multiply * p.k_tiles;
    }
  }
};

// Blocks of a cluster that send each other sums (send_to_cluster).

/// What comes before all else, by all threads of a block: `barrier` begins, whose phase ends when all is there that the block
/// expects. Behind cluster_wait() all others' have begun. (A barrier of the cluster behind the sums waits for all that a
/// thread has written: 2,048 columns of 8,192 took 17 us on an H200, and 12 without a cluster.)
__device__ __forceinline__ void begin_cluster_sums(u64* barrier) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x == 0) {
    phase_barrier_begin(barrier, 1);
    show_phase_barriers();
  }
  cluster_arrive_relaxed();
#endif
}

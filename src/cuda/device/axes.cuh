// Walking a nest of axes from the number of an element; src/cuda/axes.h has the same struct.

struct Axes {
  u32 rank;         ///< 0: one element
  Divisor size[6];  ///< outermost first
  i64 stride[6];    ///< in elements

  /// Where element `at` is, the last axis running fastest.
  __device__ __forceinline__ i64 offset(u32 at) const {
    if (rank == 0) return 0;
    if (rank == 1) return i64(at) * stride[0];
    i64 sum = 0;
    for (u32 d = rank; d-- > 1;) {
      const u32 quotient = size[d].quotient(at);
      sum += i64(at - quotient * size[d].value) * stride[d];
      at = quotient;
    }
    return sum + i64(at) * stride[0];
  }
};

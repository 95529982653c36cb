// Where products of few rows have their rows from: eight elements of a row from k on, of which those from p.k on are 0.

/// Rows that lie in memory. A layer before may compute them instead: then struct ComputedRows is generated.
struct StoredRows {
  template <class Parameters, class T>
  static __device__ __forceinline__ void get(const Parameters& p, u32 row, u32 k, T (&to)[columns_at_once]) {
    const T* const from = static_cast<const T*>(p.x) + u64(row) * p.x_row;
    if (p.x_vector && k + 8 <= p.k) {
      load(from + k, to);
    } else {
#pragma unroll
      for (u32 e = 0; e < columns_at_once; ++e) to[e] = k + e < p.k ? from[k + e] : T{};
    }
  }
};

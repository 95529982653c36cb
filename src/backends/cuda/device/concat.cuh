// Several tensors side by side in one, by one launch.

template <class T>
__device__ __forceinline__ void concat_elements(const ConcatParameters& parts, T* __restrict__ out) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < parts.chunks; at += gridDim.x * 256u) {
    u32 k = 0;
    while (k + 1 < parts.count && at >= parts.part[k + 1].first) ++k;
    const ConcatPart& part = parts.part[k];
    const u32 here = at - part.first;
    const u32 line = divide(here, part.row), column = here - line * part.row.value;
    const u32 outer = divide(line, part.rows), row = line - outer * part.rows.value;
    out[part.start + outer * part.out_outer + row * part.out_row + column] =
        static_cast<const T*>(part.data)[outer * part.in_outer + row * part.in_row + column];
  }
}

#define CAMSHAFT_CONCAT(bytes, T)                                              \
  extern "C" __global__ void __launch_bounds__(256)                            \
      concat_##bytes(const __grid_constant__ ConcatParameters parts, T* out) { \
    take_turn();                                                               \
    concat_elements(parts, out);                                               \
  }
CAMSHAFT_CONCAT(1, u8)
CAMSHAFT_CONCAT(2, u16)
CAMSHAFT_CONCAT(4, u32)
CAMSHAFT_CONCAT(8, u64)
CAMSHAFT_CONCAT(16, Wide)

// 8 channels of a pixel at once, for convolutions without tensor cores: what is beside the sums of device/contract.cuh.

/// To the result of any parameters that have c, c_row and c_vector.
template <class Parameters, class T>
__device__ __forceinline__ void store_columns(const Parameters& p, u32 row, u32 column, u32 count,
                                              const T (&from)[columns_at_once]) {
  T* to = static_cast<T*>(p.c) + i64(row) * p.c_row + column;
  if (p.c_vector && count == columns_at_once) {
    store(to, from);
  } else {
    for (u32 i = 0; i < count; ++i) to[i] = from[i];
  }
}

/// 8 channels, aligned to 16 bytes when VECTOR; those from `count` on are 0. All bits are taken with `mask`: a choice
/// between what is loaded and 0 would become a branch around the load, and loads would wait for one another.
template <bool VECTOR, class T>
__device__ __forceinline__ void load_channels(const T* __restrict__ from, u32 count, u32 mask, f32 (&to)[8]) {
  union {
    T element[8];
    u32 word[2 * sizeof(T)];
  } raw;
  if (VECTOR) {
    Words<8 * sizeof(T)>::get(from, raw.word);
  } else {
#pragma unroll
    for (u32 i = 0; i < 8; ++i) raw.element[i] = i < count ? from[i] : T{};
  }
#pragma unroll
  for (u32 i = 0; i < 2 * sizeof(T); ++i) raw.word[i] &= mask;
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = widen(raw.element[i]);
}

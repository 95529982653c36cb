// What an epilogue reads and writes: 8 columns of a row at a time.

__device__ __forceinline__ i64 offset_of_row(const RowMap& map, u32 row) {
  i64 offset = 0;
  u32 rest = row;
#pragma unroll 1
  for (u32 d = map.rank; d-- > 0;) {
    const u32 quotient = d == 0 ? 0 : divide(rest, map.size[d]);
    offset += i64(rest - quotient * map.size[d].value) * map.stride[d];
    rest = quotient;
  }
  return offset;
}

constexpr int columns_at_once = 8;

/// How an operand is laid over the result, as far as the compiler knew: one element; one a column, or one, for all rows;
/// one for each of the result's, in rows of its own pitch; anything else that broadcasts.
enum class Layout { one, columns, dense, general };

/// 8 columns of an operand; those from `count` on are not read. ALIGNED: there are 8, consecutive and aligned.
template <Layout layout, bool ALIGNED, class T>
__device__ __forceinline__ void load_columns(const EpilogueOperand& operand, u32 row, u32 column, u32 count,
                                             T (&to)[columns_at_once]) {
  const T* from = static_cast<const T*>(operand.data);
  if (layout == Layout::one) {
    const T all = *from;
#pragma unroll
    for (u32 i = 0; i < columns_at_once; ++i) to[i] = all;
    return;
  }
  if (layout == Layout::dense) from += u64(row) * operand.row_stride;
  if (layout == Layout::general) from += offset_of_row(operand.rows, row);
  if (ALIGNED || (operand.vector && count == columns_at_once)) {
    load(from + column, to);
  } else {
    for (u32 i = 0; i < columns_at_once; ++i) to[i] = i < count ? from[(column + i) * operand.column_stride] : T{};
  }
}

/// 8 columns of an operand as they lie in memory, until they are used: apart they would take a register each.
template <class T>
struct HeldColumns {
  typedef Words<columns_at_once * sizeof(T)> Whole;
  union Both {
    typename Whole::Word word[Whole::words];
    T element[columns_at_once];
  };
  typename Whole::Word word[Whole::words];

  __device__ __forceinline__ void hold(const T (&from)[columns_at_once]) {
    Both both;
#pragma unroll
    for (int i = 0; i < columns_at_once; ++i) both.element[i] = from[i];
#pragma unroll
    for (int i = 0; i < Whole::words; ++i) word[i] = both.word[i];
  }
  __device__ __forceinline__ T operator[](int i) const {
    Both both;
#pragma unroll
    for (int w = 0; w < Whole::words; ++w) both.word[w] = word[w];
    return both.element[i];
  }
};
template <Layout layout, bool ALIGNED, class T>
__device__ __forceinline__ void load_columns(const EpilogueOperand& operand, u32 row, u32 column, u32 count,
                                             HeldColumns<T>& to) {
  if (ALIGNED && layout != Layout::one) {
    const T* from = static_cast<const T*>(operand.data);
    if (layout == Layout::dense) from += u64(row) * operand.row_stride;
    if (layout == Layout::general) from += offset_of_row(operand.rows, row);
    HeldColumns<T>::Whole::get(from + column, to.word);
  } else {
    T apart[columns_at_once];
    load_columns<layout, ALIGNED>(operand, row, column, count, apart);
    to.hold(apart);
  }
}

/// Asks for the part of a tile of an operand that lies as the result does: it comes from memory while sums are made.
template <class T, u32 COLUMNS, u32 THREADS>
__device__ __forceinline__ void fetch_tile(const EpilogueOperand& operand, u32 row, u32 column, u32 rows, u32 columns) {
  constexpr u32 line = 128 / sizeof(T), lines = (COLUMNS + line - 1) / line;
#pragma unroll 1
  for (u32 e = threadIdx.x; e < rows * lines; e += THREADS) {
    const u32 r = e / lines, c = e % lines * line;
    if (c < columns)
      fetch_to_shared_cache(static_cast<const T*>(operand.data) + u64(row + r) * operand.row_stride + column + c);
  }
}

/// 8 consecutive elements of T from what they are computed in.
template <class T, class V>
__device__ __forceinline__ void store_narrow(T* to, const V (&from)[columns_at_once]) {
  T narrow[columns_at_once];
#pragma unroll
  for (int i = 0; i < columns_at_once; ++i) narrow[i] = Narrow<T>::from(from[i]);
  store(to, narrow);
}
// Two at a time: half the instructions.
__device__ __forceinline__ u32 narrow_pair(f16, f32 low, f32 high) { return f32_to_f16_pair(low, high); }
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ u32 narrow_pair(bf16, f32 low, f32 high) { return f32_to_bf16_pair(low, high); }
#endif
template <class T>
__device__ __forceinline__ void narrow_pairs(const f32 (&from)[columns_at_once], u32 (&to)[columns_at_once / 2]) {
#pragma unroll
  for (int i = 0; i < columns_at_once / 2; ++i) to[i] = narrow_pair(T{}, from[i * 2], from[i * 2 + 1]);
}
__device__ __forceinline__ void store_narrow(f16* to, const f32 (&from)[columns_at_once]) {
  u32 words[columns_at_once / 2];
  narrow_pairs<f16>(from, words);
  Words<16>::put(to, words);
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void store_narrow(bf16* to, const f32 (&from)[columns_at_once]) {
  u32 words[columns_at_once / 2];
  narrow_pairs<bf16>(from, words);
  Words<16>::put(to, words);
}
#endif

__device__ __forceinline__ void store_narrow(f8e4m3* to, const f32 (&from)[columns_at_once]) { store_float8(to, from); }
__device__ __forceinline__ void store_narrow(f8e5m2* to, const f32 (&from)[columns_at_once]) { store_float8(to, from); }

/// The same at an address that is a multiple of T's size alone.
template <class T, class V>
__device__ __forceinline__ void store_narrow_anywhere(T* to, const V (&from)[columns_at_once]) {
#pragma unroll
  for (int i = 0; i < columns_at_once; ++i) to[i] = Narrow<T>::from(from[i]);
}
/// Rows of 50,257 halves begin at odd ones every other time: all but the first and the last are then written in pairs.
template <class T>
__device__ __forceinline__ void store_halves_anywhere(T* to, const f32 (&from)[columns_at_once]) {
  u32 half[columns_at_once];
#pragma unroll
  for (int i = 0; i < columns_at_once; ++i) half[i] = Narrow<T>::from(from[i]).bits;
  if (reinterpret_cast<u64>(to) % 4 == 0) {
#pragma unroll
    for (int i = 0; i < columns_at_once; i += 2) *reinterpret_cast<u32*>(to + i) = half[i] | half[i + 1] << 16;
    return;
  }
  to->bits = u16(half[0]);
#pragma unroll
  for (int i = 1; i + 1 < columns_at_once; i += 2) *reinterpret_cast<u32*>(to + i) = half[i] | half[i + 1] << 16;
  to[columns_at_once - 1].bits = u16(half[columns_at_once - 1]);
}
__device__ __forceinline__ void store_narrow_anywhere(f16* to, const f32 (&from)[columns_at_once]) {
  store_halves_anywhere(to, from);
}
__device__ __forceinline__ void store_narrow_anywhere(bf16* to, const f32 (&from)[columns_at_once]) {
  store_halves_anywhere(to, from);
}

/// What sums of bytes in 8 columns are added to; those from `count` on are not read. ALIGNED: see load_columns().
template <bool ALIGNED, class Parameters>
__device__ __forceinline__ void load_begin(const Parameters& p, u32 column, u32 count, i32 (&to)[columns_at_once]) {
  if (ALIGNED) {
    load(p.begin + column, to);
  } else {
    for (u32 i = 0; i < columns_at_once; ++i) to[i] = i < count ? p.begin[column + i] : 0;
  }
}
/// The same, wrapping as sums of bytes do.
__device__ __forceinline__ i32 add_bytes(i32 sum, i32 begin) { return i32(u32(sum) + u32(begin)); }

/// 8 columns of a result of bytes, from what is to be rounded and moved by `zero`. ALIGNED: see load_columns().
template <class T, bool ALIGNED, class Parameters>
__device__ __forceinline__ void store_steps(const Parameters& p, u32 row, u32 column, u32 count, i32 zero,
                                            const f32 (&from)[columns_at_once]) {
  T* to = static_cast<T*>(p.c) + u64(row) * p.c_row + column;
  if (ALIGNED || (p.c_vector && count == columns_at_once)) {
    store_bytes(to, from, zero);
  } else {
    for (u32 i = 0; i < count; ++i) {
      const f32 one[1] = {from[i]};
      store_bytes(to + i, one, zero);
    }
  }
}

/// 8 columns of the result, or `count`, of type T. ALIGNED: see load_columns().
template <class T, bool ALIGNED, class Parameters, class V>
__device__ __forceinline__ void store_columns(const Parameters& p, u32 row, u32 column, u32 count,
                                              const V (&from)[columns_at_once]) {
  T* to = static_cast<T*>(p.c) + u64(row) * p.c_row + column;
  if (ALIGNED || (p.c_vector && count == columns_at_once)) {
    store_narrow(to, from);
  } else if (count == columns_at_once) {
    store_narrow_anywhere(to, from);
  } else {
    for (u32 i = 0; i < count; ++i) to[i] = Narrow<T>::from(from[i]);
  }
}

/// What Finish::run() does with 8 columns of a result: it stores them. (HoldHalves is another way.)
struct StoreColumns {
  template <class T, bool ALIGNED, class Parameters, class V>
  __device__ __forceinline__ void give(const Parameters& p, u32 row, u32 column, u32 count,
                                       const V (&from)[columns_at_once]) {
    store_columns<T, ALIGNED>(p, row, column, count, from);
  }
};

/// All that comes behind the sums of 8 columns of a row.
template <class Finish, class Parameters>
__device__ __forceinline__ void finish_columns(const Parameters& p, const f32 (&sum)[columns_at_once], u32 row,
                                               u32 column, u32 count) {
  typename Finish::OfColumns of_columns;
  typename Finish::OfRow of_row;
  of_columns.load(p, column, count);
  of_row.load(p, row, column, count);
  Finish::run(p, sum, of_columns, of_row, row, column, count);
}

// The inner loops of matrix products, included once for each instruction set by product_tiles.cpp, which defines
// CAMSHAFT_ISA (a namespace with the functions fuse(sum, row, factor), and load_part(vector, from, count) and
// store_part(vector, to, count) of its first lanes), CAMSHAFT_TARGET (the attribute of its functions),
// CAMSHAFT_VECTOR_BYTES and CAMSHAFT_REGISTERS.
//
// Sums stay in registers. GCC's vector types are all that this needs beside the fused multiply-add.
namespace camshaft::ops {
namespace {
namespace CAMSHAFT_ISA {

template <class Vector, class T>
CAMSHAFT_TARGET [[gnu::always_inline]] inline void add_product(Vector& sum, const Vector& row, T factor) {
  if constexpr (std::is_integral_v<T>) {
    sum += row * factor;
  } else {
    fuse(sum, row, factor);
  }
}

template <class T, int rows, int vectors>
CAMSHAFT_TARGET void packed_tile(int64_t k, const T* a, const T* b, T* c, int64_t c_stride, bool begins) {
  using Vector = typename VectorOf<T, CAMSHAFT_VECTOR_BYTES>::type;
  constexpr int lanes = CAMSHAFT_VECTOR_BYTES / static_cast<int>(sizeof(T));
  Vector sums[rows][vectors] = {};
  if (!begins) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) __builtin_memcpy(&sums[i][v], c + i * c_stride + v * lanes, sizeof(Vector));
  }
  for (int64_t p = 0; p < k; ++p, a += rows, b += vectors * lanes) {
    Vector row[vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) __builtin_memcpy(&row[v], b + v * lanes, sizeof(Vector));
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) add_product(sums[i][v], row[v], a[i]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) __builtin_memcpy(c + i * c_stride + v * lanes, &sums[i][v], sizeof(Vector));
}

template <class T, int rows, int vectors>
PackedTile<T> tiles_of() {
  PackedTile<T> tile;
  tile.rows = rows;
  tile.lanes = CAMSHAFT_VECTOR_BYTES / static_cast<int>(sizeof(T));
  tile.columns = vectors * tile.lanes;
  tile.run[0] = packed_tile<T, rows, 1>;
  tile.run[1] = packed_tile<T, rows, 2>;
  if constexpr (vectors > 2) tile.run[2] = packed_tile<T, rows, 3>;
  return tile;
}

template <class T>
constexpr int64_t panel = unpacked_vectors<T, CAMSHAFT_REGISTERS>*(CAMSHAFT_VECTOR_BYTES /
                                                                   static_cast<int64_t>(sizeof(T)));

template <class Vector, class T>
CAMSHAFT_TARGET [[gnu::always_inline]] inline void load_lanes(Vector& to, const T* from, bool is_cut, int count) {
  if (is_cut)
    load_part(to, from, count);
  else
    __builtin_memcpy(&to, from, sizeof(Vector));
}

// `rows` rows of c, `vectors` vectors from column `j` on, of which the last has `last` columns where it is cut.
template <class T, int rows, int vectors, bool is_cut>
CAMSHAFT_TARGET void unpacked_tile(const UnpackedOperands<T>& o, int64_t i, int64_t j, int last) {
  using Vector = typename VectorOf<T, CAMSHAFT_VECTOR_BYTES>::type;
  constexpr int lanes = CAMSHAFT_VECTOR_BYTES / static_cast<int>(sizeof(T));
  const T* a = o.a + i * o.a_row;
  const T* b = o.b + j;
  T* c = o.c + i * o.c_row + j;
  Vector sums[rows][vectors] = {};
  if (!o.begins) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v)
        load_lanes(sums[r][v], c + r * o.c_row + v * lanes, is_cut && v == vectors - 1, last);
  }
  for (int64_t p = 0; p < o.k; ++p, a += o.a_column, b += o.b_row) {
    Vector row[vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) load_lanes(row[v], b + v * lanes, is_cut && v == vectors - 1, last);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) add_product(sums[r][v], row[v], a[r * o.a_row]);
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r, c += o.c_row)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) {
      if (is_cut && v == vectors - 1)
        store_part(sums[r][v], c + v * lanes, last);
      else
        __builtin_memcpy(c + v * lanes, &sums[r][v], sizeof(Vector));
    }
}

template <class T, int rows, int vectors>
CAMSHAFT_TARGET void columns_of(const UnpackedOperands<T>& o, int64_t i, int64_t j, int last) {
  last > 0 ? unpacked_tile<T, rows, vectors, true>(o, i, j, last) : unpacked_tile<T, rows, vectors, false>(o, i, j, 0);
}

// All columns, in tiles whose numbers of vectors differ by one at most.
template <class T, int rows>
CAMSHAFT_TARGET void unpacked_columns(const UnpackedOperands<T>& o, int64_t i) {
  constexpr int64_t lanes = CAMSHAFT_VECTOR_BYTES / static_cast<int64_t>(sizeof(T)),
                    most = unpacked_vectors<T, CAMSHAFT_REGISTERS>;
  const int last = static_cast<int>(o.n % lanes);
  int64_t left = (o.n + lanes - 1) / lanes, tiles = (left + most - 1) / most;
  for (int64_t j = 0; left > 0; --tiles) {
    const int64_t vectors = (left + tiles - 1) / tiles;
    left -= vectors;
    const int columns = left == 0 ? last : 0;
    if (vectors == 1) columns_of<T, rows, 1>(o, i, j, columns);
    if (vectors == 2) columns_of<T, rows, 2>(o, i, j, columns);
    if constexpr (most > 2)
      if (vectors == 3) columns_of<T, rows, 3>(o, i, j, columns);
    j += vectors * lanes;
  }
}

template <class T>
CAMSHAFT_TARGET void unpacked_rows(const UnpackedOperands<T>& o, int64_t m) {
  constexpr int64_t lanes = CAMSHAFT_VECTOR_BYTES / static_cast<int64_t>(sizeof(T));
  constexpr int many = CAMSHAFT_REGISTERS / 2;
  int64_t i = 0;
  if (o.n <= lanes)  // few sums a row: more rows, as each addition waits for one
    for (; i + many <= m; i += many) columns_of<T, many, 1>(o, i, 0, static_cast<int>(o.n % lanes));
  if constexpr (CAMSHAFT_REGISTERS >= 32)
    for (; i + 8 <= m; i += 8) unpacked_columns<T, 8>(o, i);
  for (; i + 4 <= m; i += 4) unpacked_columns<T, 4>(o, i);
  if (m - i >= 2) unpacked_columns<T, 2>(o, i), i += 2;
  if (m - i == 1) unpacked_columns<T, 1>(o, i);
}

// Of as many vectors as they have lanes, lane i of vector j is exchanged for lane j of vector i.
template <int apart, class Vector, size_t... lane>
CAMSHAFT_TARGET [[gnu::always_inline]] inline void exchange(Vector& a, Vector& b, std::index_sequence<lane...>) {
  constexpr int lanes = sizeof...(lane);
  const Vector first = __builtin_shufflevector(
      a, b, (lane & apart ? static_cast<int>(lane) - apart + lanes : static_cast<int>(lane))...);
  b = __builtin_shufflevector(a, b,
                              (lane & apart ? static_cast<int>(lane) + lanes : static_cast<int>(lane) + apart)...);
  a = first;
}
template <int apart, class Vector, int lanes>
CAMSHAFT_TARGET [[gnu::always_inline]] inline void turn(Vector (&square)[lanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i)
    if (!(i & apart)) exchange<apart>(square[i], square[i + apart], std::make_index_sequence<lanes>());
  if constexpr (apart > 1) turn<apart / 2>(square);
}

template <class T>
CAMSHAFT_TARGET void turn_rows(const T* from, int64_t rows, int64_t row_stride, int64_t count, T* to,
                               int64_t to_stride) {
  using Vector = typename VectorOf<T, CAMSHAFT_VECTOR_BYTES>::type;
  constexpr int64_t lanes = CAMSHAFT_VECTOR_BYTES / static_cast<int64_t>(sizeof(T));
  for (int64_t p = 0; p < count; p += lanes) {
    const int here = static_cast<int>(count - p < lanes ? count - p : lanes);
    for (int64_t i = 0; i < rows; i += lanes) {
      const int high = static_cast<int>(rows - i < lanes ? rows - i : lanes);
      Vector square[lanes];
      if (here == lanes && high == lanes) {
#pragma GCC unroll 16
        for (int l = 0; l < lanes; ++l) __builtin_memcpy(&square[l], from + (i + l) * row_stride + p, sizeof(Vector));
        turn<lanes / 2>(square);
#pragma GCC unroll 16
        for (int l = 0; l < lanes; ++l) __builtin_memcpy(to + (p + l) * to_stride + i, &square[l], sizeof(Vector));
      } else {  // the last row again in place of those that there are not
        for (int l = 0; l < lanes; ++l)
          load_part(square[l], from + (i + (l < high ? l : high - 1)) * row_stride + p, here);
        turn<lanes / 2>(square);
        for (int l = 0; l < here; ++l) store_part(square[l], to + (p + l) * to_stride + i, high);
      }
    }
  }
}

// Each lane has a row, so that its elements are added in order. Rows behind the last are the last one again.
template <class T, int groups>
CAMSHAFT_TARGET void dot_rows(const DotOperands<T>& o, int64_t row, int64_t live) {
  using Vector = typename VectorOf<T, CAMSHAFT_VECTOR_BYTES>::type;
  constexpr int lanes = CAMSHAFT_VECTOR_BYTES / static_cast<int>(sizeof(T));
  const T* rows[groups][lanes];
  for (int g = 0; g < groups; ++g)
    for (int l = 0; l < lanes; ++l) {
      const int64_t at = g * lanes + l;
      rows[g][l] = o.matrix + (row + (at < live ? at : live - 1)) * o.row_stride;
    }
  Vector sums[groups] = {};
  const T* x = o.x;
  int64_t p = 0;
  for (; p + lanes <= o.k; p += lanes, x += lanes * o.x_stride) {
    for (int g = 0; g < groups; ++g) {
      Vector square[lanes];
#pragma GCC unroll 16
      for (int l = 0; l < lanes; ++l) __builtin_memcpy(&square[l], rows[g][l] + p, sizeof(Vector));
      turn<lanes / 2>(square);
#pragma GCC unroll 16
      for (int l = 0; l < lanes; ++l) add_product(sums[g], square[l], x[l * o.x_stride]);
    }
  }
  if (const int left = static_cast<int>(o.k - p)) {
    for (int g = 0; g < groups; ++g) {
      Vector square[lanes];
#pragma GCC unroll 16
      for (int l = 0; l < lanes; ++l) load_part(square[l], rows[g][l] + p, left);
      turn<lanes / 2>(square);
      for (int l = 0; l < left; ++l) add_product(sums[g], square[l], x[l * o.x_stride]);
    }
  }
  for (int64_t i = 0; i < live; ++i) o.out[row + i] = sums[i / lanes][i % lanes];
}

template <class T>
CAMSHAFT_TARGET void dots(const DotOperands<T>& o, int64_t m) {
  constexpr int64_t lanes = CAMSHAFT_VECTOR_BYTES / static_cast<int64_t>(sizeof(T));
  constexpr int groups = CAMSHAFT_REGISTERS >= 32 ? 2 : 4;  // in each of which every addition waits for one
  int64_t i = 0;
  for (; i + groups * lanes <= m; i += groups * lanes) dot_rows<T, groups>(o, i, groups * lanes);
  for (; i < m; i += lanes) dot_rows<T, 1>(o, i, m - i < lanes ? m - i : lanes);
}

}  // namespace CAMSHAFT_ISA
}  // namespace
}  // namespace camshaft::ops

#undef CAMSHAFT_ISA
#undef CAMSHAFT_TARGET
#undef CAMSHAFT_VECTOR_BYTES
#undef CAMSHAFT_REGISTERS

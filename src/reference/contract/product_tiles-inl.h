// The inner loops of matrix products, included once for each instruction set by product_tiles.cpp, which defines
// CAMSHAFT_ISA (a namespace with the functions fuse(sum, row, factor)), CAMSHAFT_TARGET (the attribute of its
// functions), CAMSHAFT_VECTOR_BYTES and CAMSHAFT_REGISTERS.
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

// `rows` rows of c, `vectors` vectors of `bytes` from column `j` on.
template <class T, int bytes, int rows, int vectors>
CAMSHAFT_TARGET [[gnu::always_inline]] inline void unpacked_tile(const UnpackedOperands<T>& o, int64_t i, int64_t j) {
  using Vector = typename VectorOf<T, bytes>::type;
  constexpr int64_t lanes = bytes / static_cast<int64_t>(sizeof(T));
  Vector sums[rows][vectors] = {};
  const T* a = o.a + i * o.a_row;
  const T* b = o.b + j;
  for (int64_t p = 0; p < o.k; ++p, a += o.a_column, b += o.b_row) {
    Vector row[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) __builtin_memcpy(&row[v], b + v * lanes, sizeof(Vector));
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) add_product(sums[r][v], row[v], a[r * o.a_row]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v)
      __builtin_memcpy(o.c + (i + r) * o.n + j + v * lanes, &sums[r][v], sizeof(Vector));
}

// Columns from j on, as many vectors of `bytes` at a time as there are whole ones. What is less than one at the end is
// computed with columns before it once more: one by one, the last 6 of 14 columns took most of the time.
template <class T, int bytes, int rows>
CAMSHAFT_TARGET [[gnu::always_inline]] inline void unpacked_vectors(const UnpackedOperands<T>& o, int64_t i) {
  constexpr int64_t lanes = bytes / static_cast<int64_t>(sizeof(T));
  int64_t j = 0;
  for (; j + 4 * lanes <= o.n; j += 4 * lanes) unpacked_tile<T, bytes, rows, 4>(o, i, j);
  const int64_t whole = (o.n - j) / lanes;
  if (whole == 3) unpacked_tile<T, bytes, rows, 3>(o, i, j);
  if (whole == 2) unpacked_tile<T, bytes, rows, 2>(o, i, j);
  if (whole == 1) unpacked_tile<T, bytes, rows, 1>(o, i, j);
  if (j + whole * lanes < o.n) unpacked_tile<T, bytes, rows, 1>(o, i, o.n - lanes);
}

// By the widest vectors that have no more lanes than there are columns.
template <class T, int bytes, int rows>
CAMSHAFT_TARGET [[gnu::always_inline]] inline void unpacked_columns(const UnpackedOperands<T>& o, int64_t i) {
  constexpr auto lanes = bytes / static_cast<int64_t>(sizeof(T));
  if constexpr (lanes > 1) {
    if (o.n < lanes) return unpacked_columns<T, bytes / 2, rows>(o, i);
  }
  unpacked_vectors<T, bytes, rows>(o, i);
}

template <class T>
CAMSHAFT_TARGET void unpacked_rows(const UnpackedOperands<T>& o, int64_t m) {
  constexpr int bytes = CAMSHAFT_VECTOR_BYTES;
  constexpr int rows = CAMSHAFT_REGISTERS >= 32 ? 4 : 2;  // whose sums, of four vectors, fit beside those of b
  int64_t i = 0;
  if (o.n <= bytes / static_cast<int64_t>(sizeof(T)))  // few sums a row: more rows, as each addition waits for one
    for (; i + 2 * rows <= m; i += 2 * rows) unpacked_columns<T, bytes, 2 * rows>(o, i);
  for (; i + rows <= m; i += rows) unpacked_columns<T, bytes, rows>(o, i);
  if constexpr (rows > 2) {
    if (m - i == 3) return unpacked_columns<T, bytes, 3>(o, i);
    if (m - i == 2) return unpacked_columns<T, bytes, 2>(o, i);
  }
  if (m - i == 1) unpacked_columns<T, bytes, 1>(o, i);
}

}  // namespace CAMSHAFT_ISA
}  // namespace
}  // namespace camshaft::ops

#undef CAMSHAFT_ISA
#undef CAMSHAFT_TARGET
#undef CAMSHAFT_VECTOR_BYTES
#undef CAMSHAFT_REGISTERS

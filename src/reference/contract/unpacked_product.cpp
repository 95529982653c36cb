#include "reference/contract/unpacked_product.h"

namespace camshaft::ops {

namespace {

template <class T, int bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(bytes)));
};

template <class T>
struct Operands {
  const T* a;
  int64_t a_row, a_column;
  const T* b;
  int64_t b_row, n, k;
  T* c;
};

// `rows` rows of c, `vectors` vectors of `bytes` from column `j` on.
template <class T, int bytes, int rows, int vectors>
[[gnu::always_inline]] inline void tile(const Operands<T>& o, int64_t i, int64_t j) {
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
      for (int v = 0; v < vectors; ++v) sums[r][v] += row[v] * a[r * o.a_row];
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v)
      __builtin_memcpy(o.c + (i + r) * o.n + j + v * lanes, &sums[r][v], sizeof(Vector));
}

template <class T, int bytes, int rows>
[[gnu::always_inline]] inline void all_columns(const Operands<T>& o, int64_t i) {
  constexpr int64_t lanes = bytes / static_cast<int64_t>(sizeof(T));
  int64_t j = 0;
  for (; j + 4 * lanes <= o.n; j += 4 * lanes) tile<T, bytes, rows, 4>(o, i, j);
  for (; j + lanes <= o.n; j += lanes) tile<T, bytes, rows, 1>(o, i, j);
  for (; j < o.n; ++j) tile<T, sizeof(T), rows, 1>(o, i, j);
}

template <class T, int bytes>
[[gnu::always_inline]] inline void all_rows(const Operands<T>& o, int64_t m) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) all_columns<T, bytes, 4>(o, i);
  for (; i < m; ++i) all_columns<T, bytes, 1>(o, i);
}

template <class T>
using Function = void (*)(const Operands<T>& o, int64_t m);

template <class T>
void baseline(const Operands<T>& o, int64_t m) {
  all_rows<T, 16>(o, m);
}

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2")]] void with_avx2(const Operands<T>& o, int64_t m) {
  all_rows<T, 32>(o, m);
}
template <class T>
[[gnu::target("avx512f,avx512dq")]] void with_avx512(const Operands<T>& o, int64_t m) {
  all_rows<T, 64>(o, m);
}
#endif

template <class T>
Function<T> best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return with_avx512<T>;
  if (__builtin_cpu_supports("avx2")) return with_avx2<T>;
#endif
  return baseline<T>;
}

}  // namespace

template <class T>
void unpacked_product(const T* a, int64_t a_row, int64_t a_column, const T* b, int64_t b_row, int64_t m, int64_t n,
                      int64_t k, T* c) {
  static const Function<T> function = best<T>();
  function({a, a_row, a_column, b, b_row, n, k, c}, m);
}

template void unpacked_product(const double*, int64_t, int64_t, const double*, int64_t, int64_t, int64_t, int64_t,
                               double*);
template void unpacked_product(const uint32_t*, int64_t, int64_t, const uint32_t*, int64_t, int64_t, int64_t, int64_t,
                               uint32_t*);
template void unpacked_product(const uint64_t*, int64_t, int64_t, const uint64_t*, int64_t, int64_t, int64_t, int64_t,
                               uint64_t*);

}  // namespace camshaft::ops

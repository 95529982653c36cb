#include "reference/contract/dot_rows.h"

namespace camshaft::ops {

namespace {

constexpr int lanes = 8;
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(lanes * sizeof(T))));
};
using Doubles = VectorOf<double>::type;

// `count` rows at a time: as many independent chains of additions.
template <class T, int count>
[[gnu::always_inline]] inline void rows_times_vector(const T* matrix, int64_t columns, const double* x, double* out) {
  using Vector = typename VectorOf<T>::type;
  Doubles sums[count] = {};
  const int64_t whole = columns / lanes * lanes;
  for (int64_t i = 0; i < whole; i += lanes) {
    Doubles at;
    __builtin_memcpy(&at, x + i, sizeof(at));
#pragma GCC unroll 8
    for (int r = 0; r < count; ++r) {
      Vector row;
      __builtin_memcpy(&row, matrix + r * columns + i, sizeof(row));
      sums[r] += __builtin_convertvector(row, Doubles) * at;
    }
  }
  for (int r = 0; r < count; ++r) {
    double sum = 0;
    for (int lane = 0; lane < lanes; ++lane) sum += sums[r][lane];
    for (int64_t i = whole; i < columns; ++i) sum += static_cast<double>(matrix[r * columns + i]) * x[i];
    out[r] += sum;
  }
}

template <class T>
[[gnu::always_inline]] inline void all_rows(const T* matrix, int64_t rows, int64_t columns, const double* x,
                                            double* out) {
  int64_t j = 0;
  for (; j + 4 <= rows; j += 4) rows_times_vector<T, 4>(matrix + j * columns, columns, x, out + j);
  for (; j < rows; ++j) rows_times_vector<T, 1>(matrix + j * columns, columns, x, out + j);
}

template <class T>
using Function = void (*)(const T* matrix, int64_t rows, int64_t columns, const double* x, double* out);

template <class T>
void baseline(const T* matrix, int64_t rows, int64_t columns, const double* x, double* out) {
  all_rows(matrix, rows, columns, x, out);
}

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2")]] void with_avx2(const T* matrix, int64_t rows, int64_t columns, const double* x, double* out) {
  all_rows(matrix, rows, columns, x, out);
}
template <class T>
[[gnu::target("avx512f,avx512dq")]] void with_avx512(const T* matrix, int64_t rows, int64_t columns, const double* x,
                                                     double* out) {
  all_rows(matrix, rows, columns, x, out);
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
void add_row_products(const T* matrix, int64_t rows, int64_t columns, const double* x, double* out) {
  static const Function<T> function = best<T>();
  function(matrix, rows, columns, x, out);
}

template void add_row_products(const float*, int64_t, int64_t, const double*, double*);
template void add_row_products(const double*, int64_t, int64_t, const double*, double*);

}  // namespace camshaft::ops

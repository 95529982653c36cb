#include "reference/contract/product_tiles.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace camshaft::ops {
namespace {

template <class T, int bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(bytes)));
};
using Double1 = VectorOf<double, 8>::type;
using Double2 = VectorOf<double, 16>::type;

// What has no multiply-add, and what multiplies exactly and needs none.
namespace baseline {
inline void fuse(Double1& sum, const Double1& row, double factor) {
  sum[0] = std::fma(row[0], factor, sum[0]);
}
inline void fuse(Double2& sum, const Double2& row, double factor) {
#if defined(__aarch64__)
  sum = vfmaq_n_f64(sum, row, factor);
#else
  for (int lane = 0; lane < 2; ++lane) sum[lane] = std::fma(row[lane], factor, sum[lane]);
#endif
}
}  // namespace baseline

#if defined(__x86_64__)
namespace exact {
inline void fuse(Double2& sum, const Double2& row, double factor) {
  sum += row * factor;
}
}  // namespace exact

using Double4 = VectorOf<double, 32>::type;
namespace avx2 {
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void fuse(Double1& sum, const Double1& row, double factor) {
  sum[0] = __builtin_fma(row[0], factor, sum[0]);
}
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void fuse(Double2& sum, const Double2& row, double factor) {
  sum = _mm_fmadd_pd(row, _mm_set1_pd(factor), sum);
}
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void fuse(Double4& sum, const Double4& row, double factor) {
  sum = _mm256_fmadd_pd(row, _mm256_set1_pd(factor), sum);
}
}  // namespace avx2

namespace avx512 {
using Double8 = VectorOf<double, 64>::type;
[[gnu::target("avx512f,avx512dq,fma"), gnu::always_inline]] inline void fuse(Double1& sum, const Double1& row,
                                                                             double factor) {
  sum[0] = __builtin_fma(row[0], factor, sum[0]);
}
[[gnu::target("avx512f,avx512dq,fma"), gnu::always_inline]] inline void fuse(Double2& sum, const Double2& row,
                                                                             double factor) {
  sum = _mm_fmadd_pd(row, _mm_set1_pd(factor), sum);
}
[[gnu::target("avx512f,avx512dq,fma"), gnu::always_inline]] inline void fuse(Double4& sum, const Double4& row,
                                                                             double factor) {
  sum = _mm256_fmadd_pd(row, _mm256_set1_pd(factor), sum);
}
[[gnu::target("avx512f,avx512dq,fma"), gnu::always_inline]] inline void fuse(Double8& sum, const Double8& row,
                                                                             double factor) {
  sum = _mm512_fmadd_pd(row, _mm512_set1_pd(factor), sum);
}
}  // namespace avx512
#endif

}  // namespace
}  // namespace camshaft::ops

#define CAMSHAFT_ISA baseline
#define CAMSHAFT_TARGET
#define CAMSHAFT_VECTOR_BYTES 16
#if defined(__aarch64__)
#define CAMSHAFT_REGISTERS 32
#else
#define CAMSHAFT_REGISTERS 16
#endif
#include "reference/contract/product_tiles-inl.h"

#if defined(__x86_64__)
#define CAMSHAFT_ISA exact
#define CAMSHAFT_TARGET
#define CAMSHAFT_VECTOR_BYTES 16
#define CAMSHAFT_REGISTERS 16
#include "reference/contract/product_tiles-inl.h"

#define CAMSHAFT_ISA avx2
#define CAMSHAFT_TARGET [[gnu::target("avx2,fma")]]
#define CAMSHAFT_VECTOR_BYTES 32
#define CAMSHAFT_REGISTERS 16
#include "reference/contract/product_tiles-inl.h"

#define CAMSHAFT_ISA avx512
#define CAMSHAFT_TARGET [[gnu::target("avx512f,avx512dq,fma")]]
#define CAMSHAFT_VECTOR_BYTES 64
#define CAMSHAFT_REGISTERS 32
#include "reference/contract/product_tiles-inl.h"
#endif

namespace camshaft::ops {
namespace {

template <class T>
struct Loops {
  PackedTile<T> packed, packed_exactly;
  void (*unpacked)(const UnpackedOperands<T>& operands, int64_t m);
};

// Of the instruction sets that this machine has, the widest first.
template <class T>
std::vector<Loops<T>> find_loops() {
  std::vector<Loops<T>> found;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    const PackedTile<T> tile = avx512::tiles_of<T, 8, 3>();
    found.push_back({tile, tile, avx512::unpacked_rows<T>});
  }
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) {
    // Products of integers take a register beside the sums, and the multiplication by words hides what is loaded.
    constexpr int vectors = std::is_integral_v<T> && sizeof(T) == 4 ? 2 : 3;
    const PackedTile<T> tile = avx2::tiles_of<T, 4, vectors>();
    found.push_back({tile, tile, avx2::unpacked_rows<T>});
  }
  const PackedTile<T> exactly = exact::tiles_of<T, 4, 2>();
#else
  const PackedTile<T> exactly = baseline::tiles_of<T, 4, 2>();
#endif
  found.push_back({baseline::tiles_of<T, 4, 2>(), exactly, baseline::unpacked_rows<T>});
  return found;
}

template <class T>
const std::vector<Loops<T>>& loops() {
  static const std::vector<Loops<T>> found = find_loops<T>();
  return found;
}

template <class T>
std::vector<PackedTile<T>> list_tiles(bool exact_products) {
  std::vector<PackedTile<T>> tiles;
  for (const Loops<T>& own : loops<T>()) tiles.push_back(exact_products ? own.packed_exactly : own.packed);
  return tiles;
}

}  // namespace

template <class T>
const std::vector<PackedTile<T>>& packed_tiles(bool exact_products) {
  static const std::vector<PackedTile<T>> exactly = list_tiles<T>(true), any = list_tiles<T>(false);
  return exact_products ? exactly : any;
}

template <class T>
void unpacked_product(const UnpackedOperands<T>& operands, int64_t m, size_t isa) {
  if (operands.k == 0) {  // the operands may be null, and null has no columns
    std::fill_n(operands.c, m * operands.n, T{});
    return;
  }
  loops<T>().at(isa).unpacked(operands, m);
}

template const std::vector<PackedTile<double>>& packed_tiles(bool);
template const std::vector<PackedTile<uint32_t>>& packed_tiles(bool);
template const std::vector<PackedTile<uint64_t>>& packed_tiles(bool);
template void unpacked_product(const UnpackedOperands<double>&, int64_t, size_t);
template void unpacked_product(const UnpackedOperands<uint32_t>&, int64_t, size_t);
template void unpacked_product(const UnpackedOperands<uint64_t>&, int64_t, size_t);

}  // namespace camshaft::ops

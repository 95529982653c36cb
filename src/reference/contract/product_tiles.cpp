#include "reference/contract/product_tiles.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

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
using Double2 = VectorOf<double, 16>::type;

// The most vectors of a tile's row. Products of integers take a register beside the sums, and the multiplication by
// words hides what is loaded.
template <class T, int registers>
constexpr int unpacked_vectors = registers >= 32 || std::is_floating_point_v<T> ? 3 : 2;

// What has no multiply-add, and what multiplies exactly and needs none.
namespace baseline {
inline void fuse(Double2& sum, const Double2& row, double factor) {
#if defined(__aarch64__)
  sum = vfmaq_n_f64(sum, row, factor);
#else
  for (int lane = 0; lane < 2; ++lane) sum[lane] = std::fma(row[lane], factor, sum[lane]);
#endif
}
template <class Vector, class T>
inline void load_part(Vector& vector, const T* from, int count) {
  vector = Vector{};
  for (int lane = 0; lane < count; ++lane) vector[lane] = from[lane];
}
template <class Vector, class T>
inline void store_part(const Vector& vector, T* to, int count) {
  for (int lane = 0; lane < count; ++lane) to[lane] = vector[lane];
}
}  // namespace baseline

#if defined(__x86_64__)
namespace exact {
inline void fuse(Double2& sum, const Double2& row, double factor) {
  sum += row * factor;
}
using baseline::load_part;
using baseline::store_part;
}  // namespace exact

using Double4 = VectorOf<double, 32>::type;
namespace avx2 {
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void fuse(Double4& sum, const Double4& row, double factor) {
  sum = _mm256_fmadd_pd(row, _mm256_set1_pd(factor), sum);
}
template <class T>
[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256i first_lanes(int count) {
  if constexpr (sizeof(T) == 8) return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
template <class Vector, class T>
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void load_part(Vector& vector, const T* from, int count) {
  __m256i bits;
  if constexpr (sizeof(T) == 8)
    bits = _mm256_maskload_epi64(reinterpret_cast<const long long*>(from), first_lanes<T>(count));
  else
    bits = _mm256_maskload_epi32(reinterpret_cast<const int*>(from), first_lanes<T>(count));
  __builtin_memcpy(&vector, &bits, sizeof(bits));
}
template <class Vector, class T>
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void store_part(const Vector& vector, T* to, int count) {
  __m256i bits;
  __builtin_memcpy(&bits, &vector, sizeof(bits));
  if constexpr (sizeof(T) == 8)
    _mm256_maskstore_epi64(reinterpret_cast<long long*>(to), first_lanes<T>(count), bits);
  else
    _mm256_maskstore_epi32(reinterpret_cast<int*>(to), first_lanes<T>(count), bits);
}
}  // namespace avx2

namespace avx512 {
using Double8 = VectorOf<double, 64>::type;
[[gnu::target("avx512f,avx512dq,fma"), gnu::always_inline]] inline void fuse(Double8& sum, const Double8& row,
                                                                             double factor) {
  sum = _mm512_fmadd_pd(row, _mm512_set1_pd(factor), sum);
}
template <class Vector, class T>
[[gnu::target("avx512f,avx512dq,fma"), gnu::always_inline]] inline void load_part(Vector& vector, const T* from,
                                                                                  int count) {
  __m512i bits;
  if constexpr (sizeof(T) == 8)
    bits = _mm512_maskz_loadu_epi64(static_cast<__mmask8>((1u << count) - 1), from);
  else
    bits = _mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << count) - 1), from);
  __builtin_memcpy(&vector, &bits, sizeof(bits));
}
template <class Vector, class T>
[[gnu::target("avx512f,avx512dq,fma"), gnu::always_inline]] inline void store_part(const Vector& vector, T* to,
                                                                                   int count) {
  __m512i bits;
  __builtin_memcpy(&bits, &vector, sizeof(bits));
  if constexpr (sizeof(T) == 8)
    _mm512_mask_storeu_epi64(to, static_cast<__mmask8>((1u << count) - 1), bits);
  else
    _mm512_mask_storeu_epi32(to, static_cast<__mmask16>((1u << count) - 1), bits);
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
  PackedTile<T> packed, packed_exactly;  // of elements of 8 bytes alone
  void (*unpacked)(const UnpackedOperands<T>& operands, int64_t m);
  void (*dots)(const DotOperands<T>& operands, int64_t m);
  void (*turn_rows)(const T* from, int64_t rows, int64_t row_stride, int64_t count, T* to, int64_t to_stride);
  int64_t panel;
};

// Of the instruction sets that this machine has, the widest first.
template <class T>
std::vector<Loops<T>> find_loops() {
  constexpr bool packs = sizeof(T) == 8;
  std::vector<Loops<T>> found;
  PackedTile<T> tile, exactly;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    if constexpr (packs) tile = avx512::tiles_of<T, 8, 3>();
    found.push_back({tile, tile, avx512::unpacked_rows<T>, avx512::dots<T>, avx512::turn_rows<T>, avx512::panel<T>});
  }
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) {
    if constexpr (packs) tile = avx2::tiles_of<T, 4, 3>();
    found.push_back({tile, tile, avx2::unpacked_rows<T>, avx2::dots<T>, avx2::turn_rows<T>, avx2::panel<T>});
  }
  if constexpr (packs) exactly = exact::tiles_of<T, 4, 2>();
#else
  if constexpr (packs) exactly = baseline::tiles_of<T, 4, 2>();
#endif
  if constexpr (packs) tile = baseline::tiles_of<T, 4, 2>();
  found.push_back(
      {tile, exactly, baseline::unpacked_rows<T>, baseline::dots<T>, baseline::turn_rows<T>, baseline::panel<T>});
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
    for (int64_t i = 0; i < m && operands.begins; ++i) std::fill_n(operands.c + i * operands.c_row, operands.n, T{});
    return;
  }
  loops<T>().at(isa).unpacked(operands, m);
}

template <class T>
int64_t unpacked_panel(size_t isa) {
  return loops<T>().at(isa).panel;
}

template <class T>
void dot_products(const DotOperands<T>& operands, int64_t m, size_t isa) {
  if (operands.k == 0) {
    std::fill_n(operands.out, m, T{});
    return;
  }
  loops<T>().at(isa).dots(operands, m);
}

template <class T>
void turn_rows(const T* from, int64_t rows, int64_t row_stride, int64_t count, T* to, int64_t to_stride, size_t isa) {
  loops<T>().at(isa).turn_rows(from, rows, row_stride, count, to, to_stride);
}

template const std::vector<PackedTile<double>>& packed_tiles(bool);
template const std::vector<PackedTile<uint64_t>>& packed_tiles(bool);
template void unpacked_product(const UnpackedOperands<double>&, int64_t, size_t);
template void unpacked_product(const UnpackedOperands<uint32_t>&, int64_t, size_t);
template void unpacked_product(const UnpackedOperands<uint64_t>&, int64_t, size_t);
template int64_t unpacked_panel<double>(size_t);
template void turn_rows(const double*, int64_t, int64_t, int64_t, double*, int64_t, size_t);
template void dot_products(const DotOperands<double>&, int64_t, size_t);
template int64_t unpacked_panel<uint32_t>(size_t);
template void turn_rows(const uint32_t*, int64_t, int64_t, int64_t, uint32_t*, int64_t, size_t);
template void dot_products(const DotOperands<uint32_t>&, int64_t, size_t);
template int64_t unpacked_panel<uint64_t>(size_t);
template void turn_rows(const uint64_t*, int64_t, int64_t, int64_t, uint64_t*, int64_t, size_t);
template void dot_products(const DotOperands<uint64_t>&, int64_t, size_t);

}  // namespace camshaft::ops

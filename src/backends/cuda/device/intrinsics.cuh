// What generated kernels begin with: every instruction that C++ has no words for. Inline PTX is written here and
// nowhere else, as small functions, so that another definition of them can stand in its place: whoever defines
// CAMSHAFT_INTRINSICS has given one. Fragments are laid out as the PTX ISA has them (9.7.14, warp-level matrix
// instructions); all lanes of a warp call a matrix instruction together.

#ifndef CAMSHAFT_INTRINSICS
#define CAMSHAFT_INTRINSICS

/// Declares `unsigned char* name`: the dynamic shared memory of the block, aligned to 1024 bytes.
#define DYNAMIC_SHARED(name)                                                  \
  extern __shared__ __align__(1024) unsigned char camshaft_dynamic_shared[];   \
  unsigned char* const name = camshaft_dynamic_shared

// ---- elements

/// IEEE half precision, to nearest even.
__device__ __forceinline__ f32 f16_to_f32(u16 bits) {
  f32 out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(bits));
  return out;
}
__device__ __forceinline__ u16 f32_to_f16(f32 x) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
/// Two, the first in the low half.
__device__ __forceinline__ u32 f32_to_f16_pair(f32 low, f32 high) {
#if __CUDA_ARCH__ >= 800
  u32 bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return u32(f32_to_f16(low)) | u32(f32_to_f16(high)) << 16;
#endif
}
/// Four numbers, rounded to nearest even, moved by `zero` and clamped to i8 (or u8), the first in the lowest byte; a NaN
/// gives 0.
template <bool IS_SIGNED>
__device__ __forceinline__ u32 f32_to_bytes(f32 a, f32 b, f32 c, f32 d, i32 zero) {
  const f32 real[4] = {a, b, c, d};
  i32 whole[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (zero == 0) {
      whole[i] = __float2int_rn(real[i]);
    } else {
      // Sums with 3 * 2^22 have no bits below 1: rounded so, moved by a whole number, and converted two at a time. In
      // integers that saturate it would take three times as many instructions. NaN becomes the lower bound.
      constexpr f32 whole_numbers = 12582912, beyond = 1024;
      const f32 bounded = fminf(fmaxf(real[i], -beyond), beyond);
      const f32 moved = (bounded + whole_numbers) - (whole_numbers - f32(zero));
      whole[i] = __float2int_rn(IS_SIGNED && real[i] != real[i] ? 0.0f : moved);
    }
  }
  u32 high, all;
  if constexpr (IS_SIGNED) {
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(whole[3]), "r"(whole[2]));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(whole[1]), "r"(whole[0]), "r"(high));
  } else {
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(whole[3]), "r"(whole[2]));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(whole[1]), "r"(whole[0]), "r"(high));
  }
  return all;
}
#if __CUDA_ARCH__ >= 800
/// Two as bf16, from compute capability 8.0 on.
__device__ __forceinline__ u32 f32_to_bf16_pair(f32 low, f32 high) {
  u32 bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
#endif

/// (x & mask) | bits: one instruction where `bits` is in a register.
__device__ __forceinline__ u32 masked_or(u32 x, u32 mask, u32 bits) {
  u32 out;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(out) : "r"(x), "r"(mask), "r"(bits));
  return out;
}
/// The number, as another lane would have it, as far as ptxas knows: it stays in a register, where it would else be
/// computed again wherever it is used, and where instructions have room for one number that is known. All lanes of the
/// warp call it.
__device__ __forceinline__ u32 in_register(u32 x) { return __shfl_sync(0xffffffffu, x, threadIdx.x % 32); }

// ---- pairs of halves, an operation on both; to nearest even

__device__ __forceinline__ u32 f16_pair_sub(u32 a, u32 b) {
  u32 out;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  return out;
}
__device__ __forceinline__ u32 f16_pair_mul(u32 a, u32 b) {
  u32 out;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
  return out;
}
/// a · b + c
__device__ __forceinline__ u32 f16_pair_fma(u32 a, u32 b, u32 c) {
  u32 out;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
}
#if __CUDA_ARCH__ >= 800
/// From compute capability 8.0 on.
__device__ __forceinline__ u32 bf16_pair_fma(u32 a, u32 b, u32 c) {
  u32 out;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
}
#endif

#if __CUDA_ARCH__ >= 890
/// Two as 8-bit floats, E4M3 or E5M2, to nearest even; what is too large, infinities too, becomes the largest number. From
/// compute capability 8.9 on.
template <bool IS_E4M3>
__device__ __forceinline__ u16 f32_to_float8_pair(f32 low, f32 high) {
  u16 bits;
  if constexpr (IS_E4M3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
}
/// Two 8-bit floats as f16, exactly.
template <bool IS_E4M3>
__device__ __forceinline__ u32 float8_pair_to_f16(u16 bits) {
  u32 pair;
  if constexpr (IS_E4M3)
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(bits));
  else
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"(bits));
  return pair;
}
#endif

/// Makes a value one that the compiler knows nothing of: it stays in its register, where it would else be computed anew
/// in each turn of a loop.
__device__ __forceinline__ void keep(u32& value) { asm volatile("" : "+r"(value)); }
template <class T>
__device__ __forceinline__ void keep(const T*& pointer) {
  asm volatile("" : "+l"(pointer));
}

/// What one access moves as words. Word by word: a copy of the whole would be taken apart into an access an element
/// (seen: eight stores of bytes for 8 halves); words next to each other are put together again.
template <int bytes>
struct Words {
  static_assert(bytes % 16 == 0);
  static constexpr int words = bytes / 4;
  typedef u32 Word;
  static __device__ __forceinline__ void get(const void* from, u32 (&to)[words]) {
#pragma unroll
    for (int i = 0; i < bytes / 16; ++i) {
      const uint4* at = static_cast<const uint4*>(from) + i;
      to[4 * i] = at->x, to[4 * i + 1] = at->y, to[4 * i + 2] = at->z, to[4 * i + 3] = at->w;
    }
  }
  static __device__ __forceinline__ void put(void* to, const u32 (&from)[words]) {
#pragma unroll
    for (int i = 0; i < bytes / 16; ++i) {
      uint4* at = static_cast<uint4*>(to) + i;
      at->x = from[4 * i], at->y = from[4 * i + 1], at->z = from[4 * i + 2], at->w = from[4 * i + 3];
    }
  }
};
template <>
struct Words<8> {
  static constexpr int words = 2;
  typedef u32 Word;
  static __device__ __forceinline__ void get(const void* from, u32 (&to)[2]) {
    const uint2* at = static_cast<const uint2*>(from);
    to[0] = at->x, to[1] = at->y;
  }
  static __device__ __forceinline__ void put(void* to, const u32 (&from)[2]) {
    uint2* at = static_cast<uint2*>(to);
    at->x = from[0], at->y = from[1];
  }
};
template <class W>
struct OneWord {
  static constexpr int words = 1;
  typedef W Word;
  static __device__ __forceinline__ void get(const void* from, W (&to)[1]) { to[0] = *static_cast<const W*>(from); }
  static __device__ __forceinline__ void put(void* to, const W (&from)[1]) { *static_cast<W*>(to) = from[0]; }
};
template <>
struct Words<4> : OneWord<u32> {};
template <>
struct Words<2> : OneWord<u16> {};
template <>
struct Words<1> : OneWord<u8> {};

/// `count` consecutive elements, by accesses of 16 bytes or one of fewer; `from` is aligned to that.
template <class T, int count>
__device__ __forceinline__ void load(const T* from, T (&to)[count]) {
  typedef Words<sizeof(T) * count> Whole;
  union {
    typename Whole::Word word[Whole::words];
    T element[count];
  } both;
  Whole::get(from, both.word);
#pragma unroll
  for (int i = 0; i < count; ++i) to[i] = both.element[i];
}
template <class T, int count>
__device__ __forceinline__ void store(T* to, const T (&from)[count]) {
  typedef Words<sizeof(T) * count> Whole;
  union {
    typename Whole::Word word[Whole::words];
    T element[count];
  } both;
#pragma unroll
  for (int i = 0; i < count; ++i) both.element[i] = from[i];
  Whole::put(to, both.word);
}

/// 16 bytes, aligned to that, of memory that no kernel writes, and that nobody reads again soon.
__device__ __forceinline__ void load_once(const void* from, u32 (&to)[4]) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "l"(from));
}

// ---- approximations, to about 2 units in the last place of f32; denormals count as 0

/// 2^x
__device__ __forceinline__ f32 exp2_approximate(f32 x) {
  f32 out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}
/// 1 / x
__device__ __forceinline__ f32 reciprocal_approximate(f32 x) {
  f32 out;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

/// Of two numbers the larger one, or the smaller one; NaN where either is. Of +0 and -0 either. The larger one of a
/// number and 0 must not go straight into f32_to_bytes(): NVRTC 13.0 makes one instruction of both (F2IP with RELU)
/// that an H200 refuses as illegal.
__device__ __forceinline__ f32 larger_or_nan(f32 a, f32 b) {
#if __CUDA_ARCH__ >= 800
  f32 out;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
#else
  return a != a ? a : b != b || b > a ? b : a;
#endif
}
__device__ __forceinline__ f32 smaller_or_nan(f32 a, f32 b) {
#if __CUDA_ARCH__ >= 800
  f32 out;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
#else
  return a != a ? a : b != b || b < a ? b : a;
#endif
}

// ---- matrices: d += a · b over one warp, a 16 × k, b k × 8, accumulated in f32

/// k = 16, pairs of halves.
__device__ __forceinline__ void mma_f16(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  for (int half = 0; half < 2; ++half)
    asm(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
}

#if __CUDA_ARCH__ >= 800
/// k = 16, pairs of bf16. From compute capability 8.0 on.
__device__ __forceinline__ void mma_bf16(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/// The bits of an f32, rounded to the 11 significant ones of TF32: to nearest, ties away from 0. From compute capability
/// 8.0 on.
__device__ __forceinline__ u32 round_to_tf32(u32 bits) {
  u32 rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
  return rounded;
}
/// k = 8, the bits of f32 whose lowest 13 do not count. From compute capability 8.0 on.
__device__ __forceinline__ void mma_tf32(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/// k = 32, bytes four a register: those of a signed or not, those of b signed. Sums wrap. From compute capability 8.0 on.
template <bool A_IS_SIGNED>
__device__ __forceinline__ void mma_bytes(i32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  if constexpr (A_IS_SIGNED)
    asm(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm(
        "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#if __CUDA_ARCH__ >= 890
/// k = 32, 8-bit floats four a register. From compute capability 8.9 on.
template <bool IS_E4M3>
__device__ __forceinline__ void mma_float8(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  if constexpr (IS_E4M3)
    asm(
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm(
        "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

/// Where in shared memory `shared` points, for the functions below: arithmetic on it takes one register.
__device__ __forceinline__ u32 shared_address(const void* shared) { return u32(__cvta_generic_to_shared(shared)); }

/// Four 8 × 8 matrices of 16-bit elements from shared memory: lane i gives the address of a row of 16 bytes, aligned to
/// that, of matrix i / 8, and gets the elements (i / 4, 2 · (i % 4)) and the next one of each.
__device__ __forceinline__ void load_matrix_x4(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
/// The same of their transposes.
__device__ __forceinline__ void load_matrix_x4_transposed(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_matrix_x4(u32 (&r)[4], const void* shared) {
  load_matrix_x4(r, shared_address(shared));
}
__device__ __forceinline__ void load_matrix_x4_transposed(u32 (&r)[4], const void* shared) {
  load_matrix_x4_transposed(r, shared_address(shared));
}

#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000
// ---- matrices: d += a · b over a warpgroup (four warps, the first of which has a number that 4 divides), a 64 × 16,
// b 16 × N, both in shared memory, d in f32. Runs beside the threads. Lane l of warp w holds of d, as d[j][e], row
// 16 w + l / 4 + 8 (e / 2), column 8 j + 2 (l % 4) + e % 2. Unless it `adds`, d is a · b: zeros from elsewhere would have
// the compiler run one after the other (C7515). Only compute capability 9.0 has these.

/// Where a matrix of 16-bit elements lies in shared memory: rows of 128 bytes, swizzled by 16 bytes within 1024. Rows
/// along k: 8 of them take 1024 bytes. Else (k's are rows of 64 elements of the other axis) panels of 64 are
/// `panel_bytes` apart. `address` may be that of a later k: 32 bytes on within rows along k, or 16 rows on.
__device__ __forceinline__ u64 matrix_descriptor(u32 address, u32 panel_bytes = 16) {
  constexpr u64 swizzle_128 = 1ull << 62, rows_of_8 = u64(1024 / 16) << 32;
  return swizzle_128 | rows_of_8 | u64(panel_bytes / 16) << 16 | ((address & 0x3ffff) >> 4);
}

/// The same without swizzle, along k: pieces of 8 rows by 16 bytes are 128 bytes that follow each other, `next_k` bytes
/// from one to that of the next 16 bytes of k, `next_rows` to that of the next 8 rows. They may overlap.
__device__ __forceinline__ u64 plain_matrix_descriptor(u32 address, u32 next_k, u32 next_rows) {
  return u64(next_rows / 16) << 32 | u64(next_k / 16) << 16 | ((address & 0x3ffff) >> 4);
}

#define CAMSHAFT_4(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define CAMSHAFT_16(i) CAMSHAFT_4(i), CAMSHAFT_4(i + 1), CAMSHAFT_4(i + 2), CAMSHAFT_4(i + 3)
#define CAMSHAFT_64(i) CAMSHAFT_16(i), CAMSHAFT_16(i + 4), CAMSHAFT_16(i + 8), CAMSHAFT_16(i + 12)
#define CAMSHAFT_WGMMA(type, n, registers, a_operand, b_operand, order_operand, adds_operand, ...)                       \
  template <bool B_BY_COLUMNS>                                                                                           \
  __device__ __forceinline__ void wgmma_##type(f32 (&d)[n / 8][4], u64 a, u64 b, bool adds) {                            \
    asm volatile("{\n\t.reg .pred add;\n\tsetp.ne.u32 add, " adds_operand ", 0;\n\twgmma.mma_async.sync.aligned.m64n" #n \
                 "k16.f32." #type "." #type " {" registers "}, " a_operand ", " b_operand ", add, 1, 1, 0, "             \
                 order_operand ";\n\t}"                                                                                  \
                 : __VA_ARGS__                                                                                           \
                 : "l"(a), "l"(b), "n"(int(B_BY_COLUMNS)), "r"(u32(adds)));                                              \
  }
// With a in registers, whose fragments are those of mma above: of the warp's 16 rows; b by columns. They must not change
// before the product is waited for.
#define CAMSHAFT_WGMMA_HELD(type, n, registers, a0, a1, a2, a3, b_operand, adds_operand, ...)                            \
  __device__ __forceinline__ void wgmma_held_##type(f32 (&d)[n / 8][4], const u32 (&a)[4], u64 b, bool adds) {           \
    asm volatile("{\n\t.reg .pred add;\n\tsetp.ne.u32 add, " adds_operand ", 0;\n\twgmma.mma_async.sync.aligned.m64n" #n \
                 "k16.f32." #type "." #type " {" registers "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b_operand             \
                 ", add, 1, 1, 1;\n\t}"                                                                                  \
                 : __VA_ARGS__                                                                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(u32(adds)));                                  \
  }
// Of bytes: 32 of k, both operands along k, sums in i32 that wrap.
#define CAMSHAFT_WGMMA_BYTES(name, type, n, registers, a_operand, b_operand, adds_operand, ...)                          \
  __device__ __forceinline__ void wgmma_##name(i32 (&d)[n / 8][4], u64 a, u64 b, bool adds) {                            \
    asm volatile("{\n\t.reg .pred add;\n\tsetp.ne.u32 add, " adds_operand ", 0;\n\twgmma.mma_async.sync.aligned.m64n" #n \
                 "k32.s32." #type ".s8 {" registers "}, " a_operand ", " b_operand ", add;\n\t}"                         \
                 : __VA_ARGS__                                                                                           \
                 : "l"(a), "l"(b), "r"(u32(adds)));                                                                      \
  }
// Of 8-bit floats: 32 of k, both operands along k. Sums keep about 14 bits of the largest of what they add at a time.
#define CAMSHAFT_WGMMA_FLOAT8(type, n, registers, a_operand, b_operand, adds_operand, ...)                               \
  __device__ __forceinline__ void wgmma_##type(f32 (&d)[n / 8][4], u64 a, u64 b, bool adds) {                            \
    asm volatile("{\n\t.reg .pred add;\n\tsetp.ne.u32 add, " adds_operand ", 0;\n\twgmma.mma_async.sync.aligned.m64n" #n \
                 "k32.f32." #type "." #type " {" registers "}, " a_operand ", " b_operand ", add, 1, 1;\n\t}"            \
                 : __VA_ARGS__                                                                                           \
                 : "l"(a), "l"(b), "r"(u32(adds)));                                                                      \
  }
#define CAMSHAFT_REGISTERS_32 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define CAMSHAFT_REGISTERS_64 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
  "%23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CAMSHAFT_REGISTERS_128 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
  "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, " \
  "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define CAMSHAFT_REGISTERS_192 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
  "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, " \
  "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, " \
  "%65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, " \
  "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define CAMSHAFT_REGISTERS_256 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
  "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, " \
  "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, " \
  "%65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, " \
  "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, " \
  "%106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, " \
  "%124, %125, %126, %127"
CAMSHAFT_WGMMA(f16, 32, CAMSHAFT_REGISTERS_32, "%16", "%17", "%18", "%19", CAMSHAFT_16(0))
CAMSHAFT_WGMMA(f16, 64, CAMSHAFT_REGISTERS_64, "%32", "%33", "%34", "%35", CAMSHAFT_16(0), CAMSHAFT_16(4))
CAMSHAFT_WGMMA(f16, 128, CAMSHAFT_REGISTERS_128, "%64", "%65", "%66", "%67", CAMSHAFT_64(0))
CAMSHAFT_WGMMA(f16, 192, CAMSHAFT_REGISTERS_192, "%96", "%97", "%98", "%99", CAMSHAFT_64(0), CAMSHAFT_16(16), CAMSHAFT_16(20))
CAMSHAFT_WGMMA(f16, 256, CAMSHAFT_REGISTERS_256, "%128", "%129", "%130", "%131", CAMSHAFT_64(0), CAMSHAFT_64(16))
CAMSHAFT_WGMMA(bf16, 32, CAMSHAFT_REGISTERS_32, "%16", "%17", "%18", "%19", CAMSHAFT_16(0))
CAMSHAFT_WGMMA(bf16, 64, CAMSHAFT_REGISTERS_64, "%32", "%33", "%34", "%35", CAMSHAFT_16(0), CAMSHAFT_16(4))
CAMSHAFT_WGMMA(bf16, 128, CAMSHAFT_REGISTERS_128, "%64", "%65", "%66", "%67", CAMSHAFT_64(0))
CAMSHAFT_WGMMA(bf16, 192, CAMSHAFT_REGISTERS_192, "%96", "%97", "%98", "%99", CAMSHAFT_64(0), CAMSHAFT_16(16), CAMSHAFT_16(20))
CAMSHAFT_WGMMA(bf16, 256, CAMSHAFT_REGISTERS_256, "%128", "%129", "%130", "%131", CAMSHAFT_64(0), CAMSHAFT_64(16))
CAMSHAFT_WGMMA_HELD(f16, 64, CAMSHAFT_REGISTERS_64, "%32", "%33", "%34", "%35", "%36", "%37", CAMSHAFT_16(0), CAMSHAFT_16(4))
CAMSHAFT_WGMMA_HELD(f16, 128, CAMSHAFT_REGISTERS_128, "%64", "%65", "%66", "%67", "%68", "%69", CAMSHAFT_64(0))
CAMSHAFT_WGMMA_HELD(bf16, 64, CAMSHAFT_REGISTERS_64, "%32", "%33", "%34", "%35", "%36", "%37", CAMSHAFT_16(0), CAMSHAFT_16(4))
CAMSHAFT_WGMMA_HELD(bf16, 128, CAMSHAFT_REGISTERS_128, "%64", "%65", "%66", "%67", "%68", "%69", CAMSHAFT_64(0))
CAMSHAFT_WGMMA_FLOAT8(e4m3, 32, CAMSHAFT_REGISTERS_32, "%16", "%17", "%18", CAMSHAFT_16(0))
CAMSHAFT_WGMMA_FLOAT8(e4m3, 64, CAMSHAFT_REGISTERS_64, "%32", "%33", "%34", CAMSHAFT_16(0), CAMSHAFT_16(4))
CAMSHAFT_WGMMA_FLOAT8(e4m3, 128, CAMSHAFT_REGISTERS_128, "%64", "%65", "%66", CAMSHAFT_64(0))
CAMSHAFT_WGMMA_FLOAT8(e4m3, 192, CAMSHAFT_REGISTERS_192, "%96", "%97", "%98", CAMSHAFT_64(0), CAMSHAFT_16(16), CAMSHAFT_16(20))
CAMSHAFT_WGMMA_FLOAT8(e4m3, 256, CAMSHAFT_REGISTERS_256, "%128", "%129", "%130", CAMSHAFT_64(0), CAMSHAFT_64(16))
CAMSHAFT_WGMMA_FLOAT8(e5m2, 32, CAMSHAFT_REGISTERS_32, "%16", "%17", "%18", CAMSHAFT_16(0))
CAMSHAFT_WGMMA_FLOAT8(e5m2, 64, CAMSHAFT_REGISTERS_64, "%32", "%33", "%34", CAMSHAFT_16(0), CAMSHAFT_16(4))
CAMSHAFT_WGMMA_FLOAT8(e5m2, 128, CAMSHAFT_REGISTERS_128, "%64", "%65", "%66", CAMSHAFT_64(0))
CAMSHAFT_WGMMA_FLOAT8(e5m2, 192, CAMSHAFT_REGISTERS_192, "%96", "%97", "%98", CAMSHAFT_64(0), CAMSHAFT_16(16), CAMSHAFT_16(20))
CAMSHAFT_WGMMA_FLOAT8(e5m2, 256, CAMSHAFT_REGISTERS_256, "%128", "%129", "%130", CAMSHAFT_64(0), CAMSHAFT_64(16))
#undef CAMSHAFT_4
#define CAMSHAFT_4(i) "+r"(d[i][0]), "+r"(d[i][1]), "+r"(d[i][2]), "+r"(d[i][3])
CAMSHAFT_WGMMA_BYTES(signed, s8, 32, CAMSHAFT_REGISTERS_32, "%16", "%17", "%18", CAMSHAFT_16(0))
CAMSHAFT_WGMMA_BYTES(signed, s8, 64, CAMSHAFT_REGISTERS_64, "%32", "%33", "%34", CAMSHAFT_16(0), CAMSHAFT_16(4))
CAMSHAFT_WGMMA_BYTES(signed, s8, 128, CAMSHAFT_REGISTERS_128, "%64", "%65", "%66", CAMSHAFT_64(0))
CAMSHAFT_WGMMA_BYTES(signed, s8, 192, CAMSHAFT_REGISTERS_192, "%96", "%97", "%98", CAMSHAFT_64(0), CAMSHAFT_16(16), CAMSHAFT_16(20))
CAMSHAFT_WGMMA_BYTES(signed, s8, 256, CAMSHAFT_REGISTERS_256, "%128", "%129", "%130", CAMSHAFT_64(0), CAMSHAFT_64(16))
CAMSHAFT_WGMMA_BYTES(unsigned, u8, 32, CAMSHAFT_REGISTERS_32, "%16", "%17", "%18", CAMSHAFT_16(0))
CAMSHAFT_WGMMA_BYTES(unsigned, u8, 64, CAMSHAFT_REGISTERS_64, "%32", "%33", "%34", CAMSHAFT_16(0), CAMSHAFT_16(4))
CAMSHAFT_WGMMA_BYTES(unsigned, u8, 128, CAMSHAFT_REGISTERS_128, "%64", "%65", "%66", CAMSHAFT_64(0))
CAMSHAFT_WGMMA_BYTES(unsigned, u8, 192, CAMSHAFT_REGISTERS_192, "%96", "%97", "%98", CAMSHAFT_64(0), CAMSHAFT_16(16), CAMSHAFT_16(20))
CAMSHAFT_WGMMA_BYTES(unsigned, u8, 256, CAMSHAFT_REGISTERS_256, "%128", "%129", "%130", CAMSHAFT_64(0), CAMSHAFT_64(16))
#undef CAMSHAFT_4
#undef CAMSHAFT_16
#undef CAMSHAFT_64
#undef CAMSHAFT_WGMMA
#undef CAMSHAFT_WGMMA_HELD
#undef CAMSHAFT_WGMMA_BYTES
#undef CAMSHAFT_WGMMA_FLOAT8
#undef CAMSHAFT_REGISTERS_32
#undef CAMSHAFT_REGISTERS_64
#undef CAMSHAFT_REGISTERS_128
#undef CAMSHAFT_REGISTERS_192
#undef CAMSHAFT_REGISTERS_256

/// What this thread wrote to shared memory, and its copies that have come, can be read by wgmma after the next barrier.
__device__ __forceinline__ void show_to_matrix_units() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }
/// Before the first wgmma, and wherever its registers were touched.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
/// Makes a group of those since the last one.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
/// Waits until at most `groups` of the latest groups run.
template <int groups>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(groups) : "memory");
}
/// Not read or moved before this.
__device__ __forceinline__ void keep(f32& value) { asm volatile("" : "+f"(value) : : "memory"); }
__device__ __forceinline__ void keep(i32& value) { asm volatile("" : "+r"(value) : : "memory"); }
template <int Fragments, class Sum>
__device__ __forceinline__ void keep_all(Sum (&values)[Fragments][4]) {
#pragma unroll
  for (int i = 0; i < Fragments; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) keep(values[i][e]);
}
#endif

// ---- copies from global to shared memory that go on beside the computation; at once before compute capability 8.0

/// 16 bytes of shared memory: the first `bytes` (0 to 16) of `global`, then zeros. Both are aligned to 16 bytes.
__device__ __forceinline__ void copy_async_16(u32 address, const void* global, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(global), "r"(bytes)
               : "memory");
#else
  u8 block[16] = {};
  if (bytes == 16)
    load(static_cast<const u8*>(global), block);
  else
    for (int i = 0; i < bytes; ++i) block[i] = static_cast<const u8*>(global)[i];
  store(static_cast<u8*>(__cvta_shared_to_generic(address)), block);
#endif
}
__device__ __forceinline__ void copy_async_16(void* shared, const void* global, int bytes) {
  copy_async_16(shared_address(shared), global, bytes);
}
/// All 16 bytes, or zeros: one instruction, where any number of bytes takes eight. IS_SHARED: other copies of the block
/// are of the same bytes, so that they pass through its first level of cache.
template <bool IS_SHARED = false>
__device__ __forceinline__ void copy_async_16_or_zero(u32 address, const void* global, bool exists) {
#if __CUDA_ARCH__ >= 800
  if constexpr (IS_SHARED)
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.eq.u32 p, %2, 0;\n\tcp.async.ca.shared.global [%0], [%1], 16, p;\n\t}"
        :
        : "r"(address), "l"(global), "r"(u32(exists))
        : "memory");
  else
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.eq.u32 p, %2, 0;\n\tcp.async.cg.shared.global [%0], [%1], 16, p;\n\t}"
        :
        : "r"(address), "l"(global), "r"(u32(exists))
        : "memory");
#else
  copy_async_16(address, global, exists ? 16 : 0);
#endif
}
/// BYTES of shared memory, 4 or 8, from as many of `global`, or zeros; both are aligned to them.
template <int BYTES>
__device__ __forceinline__ void copy_async_few_or_zero(u32 address, const void* global, bool exists) {
  static_assert(BYTES == 4 || BYTES == 8);
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :
               : "r"(address), "l"(global), "n"(BYTES), "r"(exists ? BYTES : 0)
               : "memory");
#else
  u32 words[BYTES / 4] = {};
  if (exists) load(static_cast<const u32*>(global), words);
  store(static_cast<u32*>(__cvta_shared_to_generic(address)), words);
#endif
}
/// 16 bytes of shared memory: one word four times, at once.
__device__ __forceinline__ void store_shared_16(u32 address, u32 word) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" : : "r"(address), "r"(word) : "memory");
}
/// Makes a group of this thread's copies since the last one.
__device__ __forceinline__ void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}
/// Waits until at most `groups` of this thread's latest groups are under way. Others' copies take a __syncthreads() too.
template <int groups>
__device__ __forceinline__ void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory");
#endif
}

/// The line of 128 bytes that `global` is in, from memory to the second level of cache, while the thread goes on.
__device__ __forceinline__ void fetch_to_shared_cache(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(global));
}

// ---- kernels that overlap, and blocks that see each other's shared memory; from compute capability 9.0 on

/// Before this a kernel that may start early touches only what the kernel before does not write (that one has waited for
/// all others), asks for lines of memory at most, and writes nothing but complaints.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  // ptxas moves the wait before loads that stand before it, but not across the way out that a grid without blocks has.
  // (Weights that were to come meanwhile came behind: on an H200 2,048 columns of 2,048 took 4.9 us, and take 3.0.)
  asm volatile(
      "{\n\t.reg .pred none;\n\t.reg .u32 blocks;\n\tmov.u32 blocks, %nctaid.x;\n\tsetp.eq.u32 none, blocks, 0;\n\t"
      "@none exit;\n\t}"
      :
      :
      : "memory");
  asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}
/// Once all blocks have come here, those of the next launch may start where there is room.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}
/// What a kernel begins with that has nothing to do before its turn. All blocks of all kernels take theirs: who does not
/// wait is done too early for the launches behind the next one. The next one comes in while this one works.
__device__ __forceinline__ void take_turn() {
  wait_for_previous();
  let_next_start();
}

#if __CUDA_ARCH__ >= 900
// ---- barriers in shared memory that threads and their copies arrive at: a phase ends with the last of `arrivals`, and the
// next one begins. Phases are numbered 0, 1, 0, …; from compute capability 9.0 on

/// Called by one thread, before a __syncthreads().
__device__ __forceinline__ void phase_barrier_begin(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
/// The barriers that this thread began are seen by tensor copies and by other blocks of the cluster.
__device__ __forceinline__ void show_phase_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}
/// What the thread did before is seen by those that wait for this phase.
__device__ __forceinline__ void phase_barrier_arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" : : "r"(shared_address(barrier)) : "memory");
}
/// Arrives at that barrier of block `rank` of the cluster, of CLUSTER blocks. What the thread did before is seen in its own
/// block alone: that of a cluster (.release.cluster) would wait for all of its writes to reach L2, which made clusters of
/// two 1.6 to 2.4 times slower. Products that read the stage have ended, and nothing else was done there.
template <u32 CLUSTER>
__device__ __forceinline__ void phase_barrier_arrive_at(u64* barrier, u32 rank) {
  if constexpr (CLUSTER == 1)
    phase_barrier_arrive(barrier);
  else
    asm volatile(
        "{\n\t.reg .u32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}"
        :
        : "r"(shared_address(barrier)), "r"(rank)
        : "memory");
}
/// Arrives; and the phase does not end before so many bytes of tensor copies have come.
__device__ __forceinline__ void phase_barrier_expect(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" : : "r"(shared_address(barrier)), "r"(bytes) : "memory");
}
/// Arrives for this thread once its copies up to here have come.
__device__ __forceinline__ void phase_barrier_arrive_behind_copies(u64* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" : : "r"(shared_address(barrier)) : "memory");
}
/// Waits for the end of the phase of that number that is the latest or the one before. (Of a new barrier: 1 has ended.)
__device__ __forceinline__ void phase_barrier_wait(u64* barrier, u32 phase) {
  u32 has_ended;
  do {
    asm volatile(
        "{\n\t.reg .pred ended;\n\tmbarrier.try_wait.parity.shared.b64 ended, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, ended;\n\t}"
        : "=r"(has_ended)
        : "r"(shared_address(barrier)), "r"(phase)
        : "memory");
  } while (has_ended == 0);
}
#if __CUDA_ARCH__ < 1000
/// The threads of this warpgroup keep so many registers, a multiple of 8; the block may take the others, …
template <int registers>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(registers));
}
/// … and those of this one have so many from now on, for which they wait.
template <int registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(registers));
}
#endif

// ---- copies by the tensor memory accelerator, of a box of a tensor from these elements on (the axis that follows itself
// in memory first), whose bytes count for a phase of `barrier`. What is outside of the tensor is 0. `map`: what the driver
// says of the tensor and the box (CUtensorMap), a parameter of the kernel.

__device__ __forceinline__ void tensor_copy(void* shared, const void* map, u64* barrier, i32 x, i32 y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
      :
      : "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y)
      : "memory");
}
/// To the same place of all CLUSTER blocks of the cluster, for the same barrier there.
template <u32 CLUSTER>
__device__ __forceinline__ void tensor_copy_to_all(void* shared, const void* map, u64* barrier, i32 x, i32 y, i32 z,
                                                   i32 v, i32 w) {
  if constexpr (CLUSTER == 1)
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], "
        "[%2];"
        :
        : "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(v), "r"(w)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%3, %4, %5, %6, %7}], [%2], %8;"
        :
        : "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(v), "r"(w),
          "h"(u16((1u << CLUSTER) - 1))
        : "memory");
}

/// All threads of all blocks of the cluster come here, and …
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" : : : "memory"); }
/// The same, where what the thread wrote before need not be seen: the other one waits for all its writes to reach L2.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" : : : "memory");
}
/// … wait for each other here.
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" : : : "memory"); }
/// 4 floats to `address` of the shared memory of the cluster's block `rank`, which runs: after a barrier of all.
__device__ __forceinline__ void store_to_cluster(u32 address, u32 rank, float4 v) {
  asm volatile(
      "{\n\t.reg .u32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
      "st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5};\n\t}"
      :
      : "r"(address), "r"(rank), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
      : "memory");
}
/// The same while the thread goes on: the 16 bytes count for a phase of `barrier` there (its address, too), and are seen by
/// those that wait for it.
__device__ __forceinline__ void send_to_cluster(u32 address, u32 barrier, u32 rank, float4 v) {
  asm volatile(
      "{\n\t.reg .u32 there, of_there;\n\tmapa.shared::cluster.u32 there, %0, %2;\n\t"
      "mapa.shared::cluster.u32 of_there, %1, %2;\n\t"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%3, %4, %5, %6}, [of_there];\n\t}"
      :
      : "r"(address), "r"(barrier), "r"(rank), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
      : "memory");
}
#endif

#endif  // CAMSHAFT_INTRINSICS

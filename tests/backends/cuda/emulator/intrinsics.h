// What src/backends/cuda/device/intrinsics.cuh declares, in the host's words. Whoever adds a function there adds it
// here.

#define CAMSHAFT_INTRINSICS

#define DYNAMIC_SHARED(name) unsigned char* const name = camshaft_block->shared

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;

// ---- elements

inline f32 f16_to_f32(u16 bits) {
  // Its exponent is 112 less than that of f32, so that 2^112 puts it right, for denormals too.
  f32 value = __uint_as_float((bits & 0x7fffu) << 13) * 0x1p112f;
  if ((bits & 0x7c00) == 0x7c00) value = __uint_as_float(0x7f800000u | (bits & 0x3ffu) << 13);
  return __uint_as_float(__float_as_uint(value) | (bits & 0x8000u) << 16);
}
inline u16 f32_to_f16(f32 x) {
  const u32 bits = __float_as_uint(x), sign = bits >> 16 & 0x8000;
  const u32 size = bits & 0x7fffffff;
  if (size > 0x7f800000) return 0x7fff;               // as the device makes NaN
  if (size >= 0x477ff000) return u16(sign | 0x7c00);  // 65520 and more
  if (size < 0x38800000)  // below the least normal number: the sum rounds where the last bit of a denormal is
    return u16(sign | (__float_as_uint(__uint_as_float(size) + 0.5f) - 0x3f000000u));
  return u16(sign | ((size + 0xfff + (size >> 13 & 1)) >> 13) - (112u << 10));
}
inline u32 f32_to_f16_pair(f32 low, f32 high) {
  return u32(f32_to_f16(low)) | u32(f32_to_f16(high)) << 16;
}
namespace emulator {
inline u32 f32_to_bf16(f32 x) {
  const u32 bits = __float_as_uint(x);
  return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
}  // namespace emulator
inline u32 f32_to_bf16_pair(f32 low, f32 high) {
  return emulator::f32_to_bf16(low) | emulator::f32_to_bf16(high) << 16;
}

// ---- pairs of halves

namespace emulator {
template <class F>
inline u32 of_f16_pairs(u32 a, u32 b, u32 c, const F& f) {
  u32 out = 0;
  for (int i = 0; i < 2; ++i)
    out |= u32(f32_to_f16(f(f16_to_f32(u16(a >> 16 * i)), f16_to_f32(u16(b >> 16 * i)), f16_to_f32(u16(c >> 16 * i)))))
           << 16 * i;
  return out;
}
}  // namespace emulator
inline u32 masked_or(u32 x, u32 mask, u32 bits) {
  return (x & mask) | bits;
}
inline u32 in_register(u32 x) {
  return x;
}

// In f32 sums and products of two are exact enough for one rounding; so are products with sums of the sizes that
// kernels have.
inline u32 f16_pair_sub(u32 a, u32 b) {
  return emulator::of_f16_pairs(a, b, 0, [](f32 x, f32 y, f32) { return x - y; });
}
inline u32 f16_pair_mul(u32 a, u32 b) {
  return emulator::of_f16_pairs(a, b, 0, [](f32 x, f32 y, f32) { return x * y; });
}
inline u32 f16_pair_fma(u32 a, u32 b, u32 c) {
  return emulator::of_f16_pairs(a, b, c, [](f32 x, f32 y, f32 z) { return x * y + z; });
}
inline u32 bf16_pair_fma(u32 a, u32 b, u32 c) {
  u32 out = 0;
  for (int i = 0; i < 2; ++i) {
    const auto of = [&](u32 pair) { return __uint_as_float(pair >> 16 * i << 16); };
    out |= emulator::f32_to_bf16(of(a) * of(b) + of(c)) << 16 * i;
  }
  return out;
}

template <bool IS_SIGNED>
inline u32 f32_to_bytes(f32 a, f32 b, f32 c, f32 d, int zero) {
  const f32 all[4] = {a, b, c, d};
  const long long least = IS_SIGNED ? -128 : 0, most = IS_SIGNED ? 127 : 255;
  u32 word = 0;
  for (int i = 0; i < 4; ++i) {
    const long long whole = all[i] != all[i] ? 0 : static_cast<long long>(__float2int_rn(all[i])) + zero;
    word |= (u32(whole < least ? least : whole > most ? most : whole) & 0xff) << (8 * i);
  }
  return word;
}

#if __CUDA_ARCH__ >= 890
namespace emulator {
// 8-bit floats have this many bits of mantissa and the largest number that is not infinite or NaN.
template <bool IS_E4M3>
struct Float8 {
  static constexpr int mantissa = IS_E4M3 ? 3 : 2, least_exponent = IS_E4M3 ? -6 : -14;
  static constexpr f32 largest = IS_E4M3 ? 448 : 57344;
  static constexpr u8 nan = 0x7f;

  static f32 widen(u8 code) {
    const int size = code & 0x7f, exponent = size >> mantissa, fraction = size & ((1 << mantissa) - 1);
    if (IS_E4M3 ? size == 0x7f : size > 0x7c) return __uint_as_float(0x7fc00000u);
    f32 number = !IS_E4M3 && size == 0x7c ? __uint_as_float(0x7f800000u) : f32((exponent > 0) << mantissa | fraction);
    for (int e = 0; e < mantissa - least_exponent; ++e) number *= 0.5f;
    for (int e = 1; e < exponent; ++e) number *= 2;
    return code & 0x80 ? -number : number;
  }
  // The nearest of all codes; of two that are as near, the even one. (They ascend.)
  static u8 narrow(f32 x) {
    if (x != x) return nan;
    const f32 size = x < 0 ? -x : x;
    u8 code = 0;
    while (widen(code) < largest) {
      const f32 middle = widen(code) / 2 + widen(u8(code + 1)) / 2;
      if (size < middle || (size == middle && code % 2 == 0)) break;
      ++code;
    }
    return u8(code | (__float_as_uint(x) >> 24 & 0x80));
  }
};
}  // namespace emulator
template <bool IS_E4M3>
inline u16 f32_to_float8_pair(f32 low, f32 high) {
  typedef emulator::Float8<IS_E4M3> Type;
  return u16(Type::narrow(low) | Type::narrow(high) << 8);
}
template <bool IS_E4M3>
inline u32 float8_pair_to_f16(u16 bits) {
  typedef emulator::Float8<IS_E4M3> Type;
  return f32_to_f16_pair(Type::widen(u8(bits)), Type::widen(u8(bits >> 8)));
}
#endif

template <int bytes>
struct alignas(bytes) Block {
  u8 byte[bytes];
};
namespace emulator {
inline void need_alignment(const void* pointer, size_t bytes, const char* what) {
  if ((size_t)pointer % bytes != 0) camshaft_block->fail(what);
}
}  // namespace emulator
template <int bytes>
struct Words {
  static constexpr int words = bytes / 4;
  typedef u32 Word;
  static void get(const void* from, u32 (&to)[words]) {
    emulator::need_alignment(from, bytes < 16 ? bytes : 16, "Words::get() from an address that is not aligned");
    __builtin_memcpy(to, from, bytes);
  }
  static void put(void* to, const u32 (&from)[words]) {
    emulator::need_alignment(to, bytes < 16 ? bytes : 16, "Words::put() to an address that is not aligned");
    __builtin_memcpy(to, from, bytes);
  }
};

template <class T, int count>
inline void load(const T* from, T (&to)[count]) {
  emulator::need_alignment(from, sizeof to < 16 ? sizeof to : 16,
                           "load() from an address that is not aligned to all of the elements");
  __builtin_memcpy(to, from, sizeof to);
}
template <class T, int count>
inline void store(T* to, const T (&from)[count]) {
  emulator::need_alignment(to, sizeof from < 16 ? sizeof from : 16,
                           "store() to an address that is not aligned to all of the elements");
  __builtin_memcpy(to, from, sizeof from);
}

inline void load_once(const void* from, u32 (&to)[4]) {
  load(static_cast<const u32*>(from), to);
}

// ---- approximations

namespace emulator {
inline f32 flush(f32 x) {
  return __builtin_fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}
}  // namespace emulator
inline f32 exp2_approximate(f32 x) {
  return emulator::flush(exp2f(emulator::flush(x)));
}
inline f32 reciprocal_approximate(f32 x) {
  return emulator::flush(1 / emulator::flush(x));
}

inline f32 larger_or_nan(f32 a, f32 b) {
  return a != a ? a : b != b || b > a ? b : a;
}
inline f32 smaller_or_nan(f32 a, f32 b) {
  return a != a ? a : b != b || b < a ? b : a;
}

// ---- matrices

namespace emulator {
inline f32 bf16_to_f32(u16 bits) {
  return __uint_as_float(u32(bits) << 16);
}
// The tensor core drops the bits that TF32 has not.
inline f32 tf32_to_f32(u32 bits) {
  return __uint_as_float(bits & 0xffffe000u);
}

template <class Sum>
struct MatrixOperands {
  Sum d[4];
  u32 a[4], b[2];
};

// What products are added up in, and what leaves of that.
inline f32 from_wide(double sum, f32) {
  return f32(sum);
}
inline int from_wide(double sum, int) {  // sums of bytes wrap
  return int(u32(static_cast<long long>(sum)));
}

// The fragments of all lanes as matrices, multiplied, and each lane's part of the result in the place of what it gave.
// Lane 4 g + t has the rows g and g + 8 of a and d and the column g of b: for k = 16, elements 2 t and 2 t + 1 of the
// lower and of the upper half of k in a register each; for k = 8, elements t and t + 4; for k = 32, four each.
template <int k, class Sum, class ElementOfA, class ElementOfB>
inline void multiply(Lane (&lanes)[32], const ElementOfA& of_a, const ElementOfB& of_b) {
  typedef MatrixOperands<Sum> Operands;
  constexpr int elements = k / 8;  // of a register
  f32 a[16][k], b[8][k];
  for (int i = 0; i < 32; ++i) {
    const Operands own = take<Operands>(lanes[i]);
    const int g = i / 4, t = i % 4;
    for (int half = 0; half < 2; ++half)
      for (int e = 0; e < elements; ++e) {
        const int at = half * (k / 2) + t * elements + e;
        a[g][at] = of_a(own.a[2 * half], e);
        a[g + 8][at] = of_a(own.a[2 * half + 1], e);
        b[g][at] = of_b(own.b[half], e);
      }
  }
  for (int i = 0; i < 32; ++i) {
    Operands own = take<Operands>(lanes[i]);
    for (int j = 0; j < 4; ++j) {
      const int row = i / 4 + 8 * (j / 2), column = i % 4 * 2 + j % 2;
      double sum = own.d[j];
      for (int at = 0; at < k; ++at) sum += double(a[row][at]) * double(b[column][at]);
      own.d[j] = from_wide(sum, Sum());
    }
    __builtin_memcpy(lanes[i].given, own.d, sizeof own.d);
  }
}
inline void multiply_f16(Lane (&lanes)[32]) {
  const auto element = [](u32 bits, int e) { return f16_to_f32(u16(bits >> (16 * e))); };
  multiply<16, f32>(lanes, element, element);
}
inline void multiply_bf16(Lane (&lanes)[32]) {
  const auto element = [](u32 bits, int e) { return bf16_to_f32(u16(bits >> (16 * e))); };
  multiply<16, f32>(lanes, element, element);
}
inline void multiply_tf32(Lane (&lanes)[32]) {
  const auto element = [](u32 bits, int) { return tf32_to_f32(bits); };
  multiply<8, f32>(lanes, element, element);
}
inline f32 byte_to_f32(u8 byte, bool is_signed) {
  return is_signed ? f32((signed char)byte) : f32(byte);
}
template <bool A_IS_SIGNED>
inline void multiply_bytes(Lane (&lanes)[32]) {
  multiply<32, int>(
      lanes, [](u32 bits, int e) { return byte_to_f32(u8(bits >> (8 * e)), A_IS_SIGNED); },
      [](u32 bits, int e) { return byte_to_f32(u8(bits >> (8 * e)), true); });
}
#if __CUDA_ARCH__ >= 890
template <bool IS_E4M3>
inline void multiply_float8(Lane (&lanes)[32]) {
  const auto element = [](u32 bits, int e) { return Float8<IS_E4M3>::widen(u8(bits >> (8 * e))); };
  multiply<32, f32>(lanes, element, element);
}
#endif
template <class Sum>
inline void mma(const char* name, Combine combine, Sum (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  const MatrixOperands<Sum> own = {{d[0], d[1], d[2], d[3]}, {a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const Lane* lanes = camshaft_block->exchange(name, 0xffffffff, &own, sizeof own, combine);
  __builtin_memcpy(d, lanes[camshaft_block->lane].given, sizeof d);
}
}  // namespace emulator
inline void mma_f16(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  emulator::mma("mma_f16", emulator::multiply_f16, d, a, b);
}
#if __CUDA_ARCH__ >= 800
inline void mma_bf16(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  emulator::mma("mma_bf16", emulator::multiply_bf16, d, a, b);
}
inline u32 round_to_tf32(u32 bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffffffu;
  return (bits + 0x1000u) & 0xffffe000u;
}
inline void mma_tf32(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  emulator::mma("mma_tf32", emulator::multiply_tf32, d, a, b);
}
template <bool A_IS_SIGNED>
inline void mma_bytes(int (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  emulator::mma("mma_bytes", emulator::multiply_bytes<A_IS_SIGNED>, d, a, b);
}
#endif
#if __CUDA_ARCH__ >= 890
template <bool IS_E4M3>
inline void mma_float8(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  emulator::mma("mma_float8", emulator::multiply_float8<IS_E4M3>, d, a, b);
}
#endif

namespace emulator {
// Lane i brings 16 bytes: row i % 8 of matrix i / 8.
inline void load_matrices(u32 (&r)[4], const void* row, bool transposed) {
  const auto* shared = static_cast<const u8*>(row);
  need_alignment(shared, 16, "load_matrix_x4 of a row that is not aligned to 16 bytes");
  ::Block<16> own;
  __builtin_memcpy(&own, shared, sizeof own);
  const Lane* lanes = give(transposed ? "load_matrix_x4_transposed" : "load_matrix_x4", 0xffffffff, own);
  const int lane = int(camshaft_block->lane);
  for (int matrix = 0; matrix < 4; ++matrix) {
    u16 pair[2];
    for (int e = 0; e < 2; ++e) {
      int i = lane / 4, j = lane % 4 * 2 + e;
      if (transposed) {
        const int other = i;
        i = j;
        j = other;
      }
      __builtin_memcpy(&pair[e], lanes[8 * matrix + i].given + 2 * j, 2);
    }
    r[matrix] = pair[0] | u32(pair[1]) << 16;
  }
}
}  // namespace emulator
// Addresses count from the start of the block's dynamic shared memory, which is all that they are taken of.
inline u32 shared_address(const void* shared) {
  return u32(static_cast<const u8*>(shared) - camshaft_block->shared);
}
inline void load_matrix_x4(u32 (&r)[4], const void* shared) {
  emulator::load_matrices(r, shared, false);
}
inline void load_matrix_x4_transposed(u32 (&r)[4], const void* shared) {
  emulator::load_matrices(r, shared, true);
}
inline void load_matrix_x4(u32 (&r)[4], u32 address) {
  load_matrix_x4(r, camshaft_block->shared + address);
}
inline void load_matrix_x4_transposed(u32 (&r)[4], u32 address) {
  load_matrix_x4_transposed(r, camshaft_block->shared + address);
}

// ---- matrices of a warpgroup: done as late as may be, when they are waited for, so that memory which is overwritten
// too early is seen to be

#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000
inline u64 matrix_descriptor(u32 address, u32 panel_bytes = 16) {
  return 1ull << 62 | u64(1024 / 16) << 32 | u64(panel_bytes / 16) << 16 | address >> 4;
}
inline u64 plain_matrix_descriptor(u32 address, u32 next_k, u32 next_rows) {
  if (next_k / 16 > 0x3fff) camshaft_block->fail("a matrix of wgmma whose k goes back, or too far");
  return u64(next_rows / 16) << 32 | u64(next_k / 16) << 16 | address >> 4;
}
namespace emulator {
enum class Element { f16, bf16, s8, u8, e4m3, e5m2 };  // of matrices
struct Products {
  static constexpr int most = 64;
  struct Product {
    void* d;
    u64 a, b;
    int columns;
    bool b_by_columns, adds;
    Element of_a, of_b;
    int group;
    bool a_is_held;
    u16 held[2][16];  // of the thread's two rows of d
  } product[most];
  int begin, end, group;
  unsigned long long serial;  // of the block that they belong to
};
inline Products& products() {
  static thread_local Products of_thread[1024];
  Products& own = of_thread[camshaft_block->thread.x];
  if (own.serial != camshaft_block->serial) {
    own.begin = own.end = own.group = 0;
    own.serial = camshaft_block->serial;
  }
  return own;
}
inline f32 from_bits(u16 bits, Element element) {
  return element == Element::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}
/// Elements 0 to depth of a row of a matrix that a descriptor places: along k, or with k's as rows, which those of
/// bytes cannot have.
inline void row_of(u64 descriptor, bool k_is_row, int row, int depth, Element element, f32* to) {
  const bool is_float8 = element == Element::e4m3 || element == Element::e5m2;
  const bool is_byte = element == Element::s8 || element == Element::u8 || is_float8;
  if (is_byte && (k_is_row || descriptor >> 62 != 1))
    camshaft_block->fail("a matrix of bytes that wgmma does not take");
  const bool is_plain = descriptor >> 62 == 0 && !k_is_row;
  if (descriptor >> 62 != 1 && !is_plain) camshaft_block->fail("a matrix of wgmma that is not swizzled by 128 bytes");
  const u32 start = u32(descriptor & 0x3fff) << 4, panel = u32(descriptor >> 16 & 0x3fff) << 4,
            rows_of_8 = u32(descriptor >> 32 & 0x3fff) << 4;
  const u32 first = is_plain   ? start + u32(row / 8) * rows_of_8 + u32(row % 8) * 16
                    : k_is_row ? start + u32(row / 64) * panel + u32(row % 64) * 2
                               : start + u32(row / 8) * rows_of_8 + u32(row % 8) * 128;
  const u8* const shared = camshaft_block->shared;
  for (int k = 0; k < depth; ++k) {
    u32 at = first + (is_plain   ? u32(k / 8) * panel + u32(k % 8) * 2
                      : k_is_row ? u32(k / 8) * rows_of_8 + u32(k % 8) * 128
                                 : u32(k) * (is_byte ? 1 : 2));
    if (!is_plain) at ^= (at >> 7 & 7) << 4;
    if (is_float8) {
      to[k] = element == Element::e4m3 ? Float8<true>::widen(shared[at]) : Float8<false>::widen(shared[at]);
    } else if (is_byte) {
      to[k] = byte_to_f32(shared[at], element == Element::s8);
    } else {
      u16 bits;
      __builtin_memcpy(&bits, shared + at, 2);
      to[k] = from_bits(bits, element);
    }
  }
}
template <class Sum>
inline void run(const Products::Product& product, Sum* d, int depth) {
  const int lane = int(camshaft_block->lane), warp = int(camshaft_block->thread.x) / 32 % 4;
  f32 a[2][32], b[32];
  for (int half = 0; half < 2; ++half) {
    if (product.a_is_held)
      for (int k = 0; k < depth; ++k) a[half][k] = from_bits(product.held[half][k], product.of_a);
    else
      row_of(product.a, false, 16 * warp + lane / 4 + 8 * half, depth, product.of_a, a[half]);
  }
  for (int j = 0; j < product.columns / 8; ++j)
    for (int side = 0; side < 2; ++side) {
      row_of(product.b, product.b_by_columns, 8 * j + lane % 4 * 2 + side, depth, product.of_b, b);
      for (int half = 0; half < 2; ++half) {
        Sum& result = d[4 * j + 2 * half + side];
        double sum = product.adds ? result : 0;
        for (int k = 0; k < depth; ++k) sum += double(a[half][k]) * double(b[k]);
        result = from_wide(sum, Sum());
      }
    }
}
inline void run(const Products::Product& product) {
  if (product.of_b == Element::s8) {
    run(product, static_cast<int*>(product.d), 32);
  } else {
    run(product, static_cast<f32*>(product.d),
        product.of_b == Element::e4m3 || product.of_b == Element::e5m2 ? 32 : 16);
  }
}
inline void wgmma(void* d, int columns, u64 a, u64 b, bool b_by_columns, Element of_a, Element of_b, bool adds) {
  Products& own = products();
  if (own.end - own.begin == own.most) camshaft_block->fail("more products under way than the emulator keeps");
  own.product[own.end++ % own.most] = {d, a, b, columns, b_by_columns, adds, of_a, of_b, own.group, false, {}};
}
inline void wgmma_held(f32* d, int columns, const u32 (&a)[4], u64 b, Element element, bool adds) {
  wgmma(d, columns, 0, b, true, element, element, adds);
  Products& own = products();
  Products::Product& product = own.product[(own.end - 1) % own.most];
  product.a_is_held = true;
  ::Block<16> registers;
  __builtin_memcpy(&registers, a, sizeof a);
  const Lane* lanes = give("wgmma of registers", 0xffffffff, registers);
  for (int half = 0; half < 2; ++half)
    for (int k = 0; k < 16; ++k)
      __builtin_memcpy(&product.held[half][k],
                       lanes[camshaft_block->lane / 4 * 4 + k % 8 / 2].given + 4 * (half + k / 8 * 2) + k % 2 * 2, 2);
}
}  // namespace emulator
template <bool B_BY_COLUMNS, int blocks>
inline void wgmma_f16(f32 (&d)[blocks][4], u64 a, u64 b, bool adds) {
  emulator::wgmma(d, blocks * 8, a, b, B_BY_COLUMNS, emulator::Element::f16, emulator::Element::f16, adds);
}
template <bool B_BY_COLUMNS, int blocks>
inline void wgmma_bf16(f32 (&d)[blocks][4], u64 a, u64 b, bool adds) {
  emulator::wgmma(d, blocks * 8, a, b, B_BY_COLUMNS, emulator::Element::bf16, emulator::Element::bf16, adds);
}
template <int blocks>
inline void wgmma_held_f16(f32 (&d)[blocks][4], const u32 (&a)[4], u64 b, bool adds) {
  emulator::wgmma_held(&d[0][0], blocks * 8, a, b, emulator::Element::f16, adds);
}
template <int blocks>
inline void wgmma_held_bf16(f32 (&d)[blocks][4], const u32 (&a)[4], u64 b, bool adds) {
  emulator::wgmma_held(&d[0][0], blocks * 8, a, b, emulator::Element::bf16, adds);
}
template <int blocks>
inline void wgmma_signed(int (&d)[blocks][4], u64 a, u64 b, bool adds) {
  emulator::wgmma(d, blocks * 8, a, b, false, emulator::Element::s8, emulator::Element::s8, adds);
}
template <int blocks>
inline void wgmma_unsigned(int (&d)[blocks][4], u64 a, u64 b, bool adds) {
  emulator::wgmma(d, blocks * 8, a, b, false, emulator::Element::u8, emulator::Element::s8, adds);
}
template <int blocks>
inline void wgmma_e4m3(f32 (&d)[blocks][4], u64 a, u64 b, bool adds) {
  emulator::wgmma(d, blocks * 8, a, b, false, emulator::Element::e4m3, emulator::Element::e4m3, adds);
}
template <int blocks>
inline void wgmma_e5m2(f32 (&d)[blocks][4], u64 a, u64 b, bool adds) {
  emulator::wgmma(d, blocks * 8, a, b, false, emulator::Element::e5m2, emulator::Element::e5m2, adds);
}
inline void show_to_matrix_units() {}
inline void wgmma_fence() {}
inline void wgmma_commit() {
  ++emulator::products().group;
}
template <int groups>
inline void wgmma_wait() {
  emulator::Products& own = emulator::products();
  for (; own.begin != own.end && own.product[own.begin % own.most].group < own.group - groups; ++own.begin)
    emulator::run(own.product[own.begin % own.most]);
}
#endif

// ---- copies beside the computation: done as late as may be, when they are waited for; until then the place that they
// go to holds what nobody wrote

#if __CUDA_ARCH__ >= 800
namespace emulator {
struct Copies {
  static constexpr int most = 256;
  struct Copy {
    u8* to;
    const void* from;
    int bytes, size, group;  // what is read, and then zeros
  } copy[most];
  int begin, end, group;
  unsigned long long serial;  // of the block that they belong to
};
inline Copies& copies() {
  static thread_local Copies of_thread[1024];
  const Index at = camshaft_block->thread, size = camshaft_block->threads;
  Copies& own = of_thread[at.x + size.x * (at.y + size.y * at.z)];
  if (own.serial != camshaft_block->serial) {
    own.begin = own.end = own.group = 0;
    own.serial = camshaft_block->serial;
  }
  return own;
}
}  // namespace emulator
#endif
namespace emulator {
inline void copy_async(void* shared, const void* global, int bytes, int size) {
  need_alignment(shared, size, "a copy beside the computation to an address that is not aligned to its size");
  if (bytes < 0 || bytes > size) camshaft_block->fail("a copy of less than 0 or more bytes than its size");
  if (bytes > 0) need_alignment(global, size, "a copy beside the computation from an address not aligned to its size");
#if __CUDA_ARCH__ >= 800
  Copies& own = copies();
  if (own.end - own.begin == own.most) camshaft_block->fail("more copies under way than the emulator keeps");
  own.copy[own.end++ % own.most] = {static_cast<u8*>(shared), global, bytes, size, own.group};
  __builtin_memset(shared, 0xcd, size_t(size));
#else
  __builtin_memset(shared, 0, size_t(size));
  __builtin_memcpy(shared, global, size_t(bytes));
#endif
}
}  // namespace emulator
inline void copy_async_16(void* shared, const void* global, int bytes) {
  emulator::copy_async(shared, global, bytes, 16);
}
inline void copy_async_16(u32 address, const void* global, int bytes) {
  copy_async_16(static_cast<void*>(camshaft_block->shared + address), global, bytes);
}
template <bool IS_SHARED = false>
inline void copy_async_16_or_zero(u32 address, const void* global, bool exists) {
  copy_async_16(address, global, exists ? 16 : 0);
}
template <int BYTES>
inline void copy_async_few_or_zero(u32 address, const void* global, bool exists) {
  emulator::copy_async(camshaft_block->shared + address, global, exists ? BYTES : 0, BYTES);
}
inline void store_shared_16(u32 address, u32 word) {
  emulator::need_alignment(camshaft_block->shared + address, 16, "store_shared_16 to an address that is not aligned");
  for (int i = 0; i < 4; ++i) __builtin_memcpy(camshaft_block->shared + address + 4 * i, &word, 4);
}
inline void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  ++emulator::copies().group;
#endif
}
#if __CUDA_ARCH__ >= 800
namespace emulator {
inline void finish_copies(int end_group) {
  Copies& own = copies();
  for (; own.begin != own.end && own.copy[own.begin % own.most].group < end_group; ++own.begin) {
    const Copies::Copy& copy = own.copy[own.begin % own.most];
    __builtin_memset(copy.to, 0, size_t(copy.size));
    if (copy.bytes > 0) __builtin_memcpy(copy.to, copy.from, size_t(copy.bytes));
  }
}
}  // namespace emulator
#endif
template <int groups>
inline void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  emulator::finish_copies(emulator::copies().group - groups);
#endif
}

inline void fetch_to_shared_cache(const void*) {}

// ---- kernels that overlap: none here, but those that may must have waited

inline void wait_for_previous() {
  camshaft_block->has_waited = true;
}
inline void let_next_start() {}
inline void take_turn() {
  wait_for_previous();
}
template <class T>
inline void keep(T&) {}
template <class T>
inline void keep_all(T&) {}

#if __CUDA_ARCH__ >= 900
// Barriers by phases: the threads that are still to come (0 before it has begun), how many a phase has, its number.
namespace emulator {
struct PhaseBarrier {
  unsigned short left, arrivals : 15, phase : 1;
  int bytes;  ///< that are still to come; less than 0 where they came before they were expected
};
/// Other blocks of a cluster may change it at the same time.
template <class Change>
inline void change(u64* at, Change change) {
  need_alignment(at, 8, "a barrier that is not aligned to 8 bytes");
  u64 before = __atomic_load_n(at, __ATOMIC_ACQUIRE), after;
  do {
    PhaseBarrier barrier;
    __builtin_memcpy(&barrier, &before, 8);
    if (barrier.arrivals == 0) camshaft_block->fail("a barrier that has not begun");
    if (!change(barrier)) camshaft_block->fail("more arrivals at a barrier than a phase of it has");
    if (barrier.left == 0 && barrier.bytes == 0) {
      barrier.left = barrier.arrivals;
      barrier.phase ^= 1;
    }
    __builtin_memcpy(&after, &barrier, 8);
  } while (!__atomic_compare_exchange_n(at, &before, after, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  PhaseBarrier left, had;
  __builtin_memcpy(&left, &after, 8);
  __builtin_memcpy(&had, &before, 8);
  if (left.phase != had.phase) camshaft_block->phase_ended(at);
}
inline void arrive(u64* at, int bytes) {
  change(at, [&](PhaseBarrier& barrier) {
    barrier.bytes += bytes;
    return barrier.left-- > 0;
  });
}
inline u64* at_block(u64* barrier, u32 rank) {
  if (rank >= camshaft_block->cluster_blocks) camshaft_block->fail("a barrier of a block that is not there");
  return reinterpret_cast<u64*>(camshaft_block->cluster[rank] + shared_address(barrier));
}

/// What cuTensorMapEncodeTiled() has written: axes, the one that follows itself in memory first.
struct TensorMap {
  const u8* data;
  u32 rank, element_bytes;
  u32 sizes[5], box[5];
  u64 strides[5];  ///< bytes
};
static_assert(sizeof(TensorMap) <= 128);

/// In rows of 128 bytes that are swizzled by 16, as wgmma takes them, to `first` of a block's shared memory.
inline void copy_box(u8* shared, u32 first, const void* opaque, const int (&from)[5]) {
  TensorMap map;
  __builtin_memcpy(&map, opaque, sizeof map);
  if (map.rank < 2 || map.rank > 5) camshaft_block->fail("a tensor copy by no map");
  if (map.box[0] * map.element_bytes != 128) camshaft_block->fail("a tensor copy of rows that are not 128 bytes");
  if (first % 128 != 0) camshaft_block->fail("a tensor copy to no row of 128 bytes");
  u32 rows = 1;
  for (u32 d = 1; d < map.rank; ++d) rows *= map.box[d];
  for (u32 row = 0; row < rows; ++row) {
    u32 rest = row;
    bool is_inside = true;
    const u8* data = map.data;
    for (u32 d = 1; d < map.rank; ++d) {
      const long long at = from[d] + (long long)(rest % map.box[d]);
      rest /= map.box[d];
      is_inside = is_inside && at >= 0 && at < (long long)(map.sizes[d]);
      if (is_inside) data += at * (long long)(map.strides[d]);
    }
    for (u32 e = 0; e < map.box[0]; ++e) {
      const long long at = from[0] + (long long)(e);
      const u32 address = first + row * 128 + e * map.element_bytes;
      u8* const swizzled = shared + (address ^ (address >> 7 & 7) << 4);
      if (is_inside && at >= 0 && at < (long long)(map.sizes[0]))
        __builtin_memcpy(swizzled, data + at * (long long)(map.element_bytes), map.element_bytes);
      else
        __builtin_memset(swizzled, 0, map.element_bytes);
    }
  }
}
inline int box_bytes(const void* opaque) {
  TensorMap map;
  __builtin_memcpy(&map, opaque, sizeof map);
  int bytes = int(map.element_bytes);
  for (u32 d = 0; d < map.rank; ++d) bytes *= int(map.box[d]);
  return bytes;
}
}  // namespace emulator
inline void show_phase_barriers() {}
inline void phase_barrier_begin(u64* barrier, u32 arrivals) {
  if (arrivals == 0 || arrivals > 1024) camshaft_block->fail("a barrier of no threads, or of more than 1024");
  const emulator::PhaseBarrier begun{(unsigned short)(arrivals), (unsigned short)(arrivals), 0, 0};
  __builtin_memcpy(barrier, &begun, 8);
}
inline void phase_barrier_arrive(u64* barrier) {
  emulator::arrive(barrier, 0);
}
template <u32 CLUSTER>
inline void phase_barrier_arrive_at(u64* barrier, u32 rank) {
  emulator::arrive(emulator::at_block(barrier, rank), 0);
}
inline void phase_barrier_expect(u64* barrier, u32 bytes) {
  emulator::arrive(barrier, int(bytes));
}
inline void tensor_copy(void* shared, const void* map, u64* barrier, int x, int y) {
  emulator::copy_box(camshaft_block->shared, shared_address(shared), map, {x, y, 0, 0, 0});
  emulator::change(barrier, [&](emulator::PhaseBarrier& b) {
    b.bytes -= emulator::box_bytes(map);
    return true;
  });
}
template <u32 CLUSTER>
inline void tensor_copy_to_all(void* shared, const void* map, u64* barrier, int x, int y, int z, int v, int w) {
  if (CLUSTER != camshaft_block->cluster_blocks) camshaft_block->fail("a tensor copy to another cluster than there is");
  for (u32 rank = 0; rank < CLUSTER; ++rank) {
    emulator::copy_box(camshaft_block->cluster[rank], shared_address(shared), map, {x, y, z, v, w});
    emulator::change(emulator::at_block(barrier, rank), [&](emulator::PhaseBarrier& b) {
      b.bytes -= emulator::box_bytes(map);
      return true;
    });
  }
}
inline void phase_barrier_arrive_behind_copies(u64* at) {
  emulator::finish_copies(emulator::copies().group + 1);
  phase_barrier_arrive(at);
}
inline void phase_barrier_wait(u64* at, u32 phase) {
  // Looks of a block of a cluster, whose others take as long as they need.
  constexpr int most_turns = 3000000;
  const auto current = [&] {
    emulator::PhaseBarrier barrier;
    const u64 bits = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    __builtin_memcpy(&barrier, &bits, 8);
    if (barrier.arrivals == 0) camshaft_block->fail("a barrier that has not begun");
    return barrier.phase;
  };
  for (int turn = 0; current() == phase; ++turn) {
    if (turn == most_turns) camshaft_block->fail("a thread waits for ever for the end of a phase");
    camshaft_block->await_phase(at);
  }
}
template <int registers>
inline void give_registers() {}
template <int registers>
inline void take_registers() {}
inline void cluster_arrive() {}
inline void cluster_arrive_relaxed() {}
inline void cluster_wait() {
  camshaft_block->synchronize_cluster();
}
inline void store_to_cluster(u32 address, u32 rank, float4 v) {
  if (rank >= camshaft_block->cluster_blocks) camshaft_block->fail("store_to_cluster of a block that is not there");
  __builtin_memcpy(camshaft_block->cluster[rank] + address, &v, sizeof v);
}
inline void send_to_cluster(u32 address, u32 barrier, u32 rank, float4 v) {
  store_to_cluster(address, rank, v);
  emulator::change(reinterpret_cast<u64*>(camshaft_block->cluster[rank] + barrier), [](emulator::PhaseBarrier& b) {
    b.bytes -= int(sizeof v);
    return true;
  });
}
#endif

// Element types of kernels, and the scalar functions with the reference's meaning.
//
// Floating-point types narrower than f32 are computed in f32; integers in 64 bits, wrapping, and booleans as 0 or 1.

struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
struct boolean {
  u8 byte;
};
struct f8e4m3 {
  static constexpr bool is_e4m3 = true;
  u8 bits;
};
struct f8e5m2 {
  static constexpr bool is_e4m3 = false;
  u8 bits;
};

// ---- reading and writing elements

__device__ __forceinline__ f64 widen(f64 x) { return x; }
__device__ __forceinline__ f32 widen(f32 x) { return x; }
__device__ __forceinline__ f32 widen(f16 x) { return f16_to_f32(x.bits); }
__device__ __forceinline__ f32 widen(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }
#if __CUDA_ARCH__ >= 890
__device__ __forceinline__ f32 widen(f8e4m3 x) { return f16_to_f32(u16(float8_pair_to_f16<true>(x.bits))); }
#else
// As f16 it has an exponent that is 8 less, for denormals too.
__device__ __forceinline__ f32 widen(f8e4m3 x) {
  const f32 number = f16_to_f32(u16((x.bits & 0x80) << 8 | (x.bits & 0x7f) << 7)) * 256.0f;
  return (x.bits & 0x7f) == 0x7f ? __uint_as_float(0x7fc00000u) : number;
}
#endif
__device__ __forceinline__ f32 widen(f8e5m2 x) { return f16_to_f32(u16(x.bits << 8)); }
__device__ __forceinline__ i64 widen(i64 x) { return x; }
__device__ __forceinline__ i64 widen(i32 x) { return x; }
__device__ __forceinline__ i64 widen(i16 x) { return x; }
__device__ __forceinline__ i64 widen(i8 x) { return x; }
__device__ __forceinline__ u64 widen(u64 x) { return x; }
__device__ __forceinline__ u64 widen(u32 x) { return x; }
__device__ __forceinline__ u64 widen(u16 x) { return x; }
__device__ __forceinline__ u64 widen(u8 x) { return x; }
__device__ __forceinline__ i64 widen(boolean x) { return x.byte != 0; }

/// To a type from one that values are computed in: reals round to nearest, and are cut and clamped to integers (NaN
/// gives 0); integers wrap.
template <class T>
struct Narrow {
  __device__ __forceinline__ static T from(i64 x) { return T(x); }
  __device__ __forceinline__ static T from(u64 x) { return T(x); }
  __device__ __forceinline__ static T from(f32 x) {
    if constexpr (sizeof(T) > 2) {
      return from(f64(x));
    } else {
      constexpr bool is_signed = T(-1) < T(0);
      constexpr i32 largest = (1 << (8 * int(sizeof(T)) - (is_signed ? 1 : 0))) - 1, least = is_signed ? -largest - 1 : 0;
      const i32 whole = __float2int_rz(x);
      return T(whole < least ? least : whole > largest ? largest : whole);
    }
  }
  __device__ __forceinline__ static T from(f64 x) {
    constexpr bool is_signed = T(-1) < T(0);
    constexpr int bits = 8 * int(sizeof(T)) - (is_signed ? 1 : 0);
    constexpr u64 high = ~u64(0) >> (64 - bits);
    constexpr T largest = T(high), least = is_signed ? T(-i64(high) - 1) : T(0);
    return x != x ? T(0) : x >= 2 * f64(u64(1) << (bits - 1)) ? largest : x <= f64(least) ? least : T(x);
  }
};
template <>
struct Narrow<f64> {
  template <class V>
  __device__ __forceinline__ static f64 from(V x) {
    return f64(x);
  }
};
template <>
struct Narrow<f32> {
  template <class V>
  __device__ __forceinline__ static f32 from(V x) {
    return f32(x);
  }
};
/// Towards 0, but with the last bit set where that is not exact: rounding it further rounds once (Boldo & Melquiond).
__device__ __forceinline__ f32 to_odd(f64 x) {
  const f32 cut = __double2float_rz(x);
  return f64(cut) == x || x != x ? cut : __uint_as_float(__float_as_uint(cut) | 1);
}
template <>
struct Narrow<f16> {
  __device__ __forceinline__ static f16 from(f32 x) {
    f16 out;
    out.bits = f32_to_f16(x);
    return out;
  }
  __device__ __forceinline__ static f16 from(f64 x) { return from(to_odd(x)); }
  __device__ __forceinline__ static f16 from(i64 x) { return from(f64(x)); }
  __device__ __forceinline__ static f16 from(u64 x) { return from(f64(x)); }
};
template <>
struct Narrow<bf16> {
  // To nearest, ties to even; there is an instruction for it from sm_80 on.
  __device__ __forceinline__ static bf16 from(f32 x) {
    const u32 bits = __float_as_uint(x);
    bf16 out;
    out.bits = x != x ? u16((bits >> 16) | 0x40) : u16((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    return out;
  }
  __device__ __forceinline__ static bf16 from(f64 x) { return from(to_odd(x)); }
  __device__ __forceinline__ static bf16 from(i64 x) { return from(f64(x)); }
  __device__ __forceinline__ static bf16 from(u64 x) { return from(f64(x)); }
};
/// To an 8-bit float of so many bits of mantissa, to nearest even; what is too large, infinities too, becomes the largest
/// number, and NaN 0x7f.
template <int MANTISSA>
__device__ __forceinline__ u8 float8_of(f32 x) {
#if __CUDA_ARCH__ >= 890
  return u8(f32_to_float8_pair<MANTISSA == 3>(x, 0.0f));
#else
  constexpr u32 largest = MANTISSA == 3 ? 0x7e : 0x7b, bias = MANTISSA == 3 ? 7 : 15, cut = 23 - MANTISSA;
  const u32 bits = __float_as_uint(x), size = bits & 0x7fffffff;
  u32 code;
  if (size < (128 - bias) << 23) {
    // Added to this power of two, what is below the least normal number is rounded to whole steps of denormals.
    constexpr u32 power = (127 + 24 - bias - MANTISSA) << 23;
    code = __float_as_uint(__uint_as_float(size) + __uint_as_float(power)) - power;
  } else {
    code = (size - ((127 - bias) << 23) + (1u << (cut - 1)) - 1 + (size >> cut & 1)) >> cut;
  }
  if (size > 0x7f800000) return 0x7f;
  return u8((code > largest ? largest : code) | (bits >> 24 & 0x80));
#endif
}
template <>
struct Narrow<f8e4m3> {
  template <class V>
  __device__ __forceinline__ static f8e4m3 from(V x) {
    f8e4m3 out;
    out.bits = float8_of<3>(in_f32(x));
    return out;
  }
  __device__ __forceinline__ static f32 in_f32(f32 x) { return x; }
  template <class V>
  __device__ __forceinline__ static f32 in_f32(V x) {
    return to_odd(f64(x));
  }
};
template <>
struct Narrow<f8e5m2> {
  template <class V>
  __device__ __forceinline__ static f8e5m2 from(V x) {
    f8e5m2 out;
    out.bits = float8_of<2>(Narrow<f8e4m3>::in_f32(x));
    return out;
  }
};
template <>
struct Narrow<boolean> {
  template <class V>
  __device__ __forceinline__ static boolean from(V x) {
    boolean out;
    out.byte = x != V(0);
    return out;
  }
};

/// A number rounded, moved by `zero` and clamped to T, a type of bytes. NaN gives 0.
template <class T>
__device__ __forceinline__ f32 rounded_step(f32 x, i32 zero) {
  constexpr i32 least = T(-1) < T(0) ? -128 : 0, largest = least + 255;
  const i32 whole = __float2int_rn(x), low = least - zero, high = largest - zero;
  const f32 step = f32((whole < low ? low : whole > high ? high : whole) + zero);
  return zero != 0 && x != x ? 0.0f : step;
}
/// Numbers to be rounded, moved by `zero` and clamped, as bytes. `to` is aligned to all of them.
template <class T, int count>
__device__ __forceinline__ void store_bytes(T* to, const f32 (&from)[count], i32 zero) {
  constexpr bool is_signed = T(-1) < T(0);
  if constexpr (count % 4 == 0) {
    u32 words[count / 4];
#pragma unroll
    for (int i = 0; i < count / 4; ++i)
      words[i] = f32_to_bytes<is_signed>(from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3], zero);
    Words<count>::put(to, words);
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) to[i] = T(f32_to_bytes<is_signed>(from[i], 0, 0, 0, zero));
  }
}

/// Numbers as 8-bit floats. `to` is aligned to all of them.
template <class T, int count>
__device__ __forceinline__ void store_float8(T* to, const f32 (&from)[count]) {
#if __CUDA_ARCH__ >= 890
  if constexpr (count % 4 == 0) {
    u32 words[count / 4];
#pragma unroll
    for (int i = 0; i < count / 4; ++i)
      words[i] = f32_to_float8_pair<T::is_e4m3>(from[4 * i], from[4 * i + 1]) |
                 u32(f32_to_float8_pair<T::is_e4m3>(from[4 * i + 2], from[4 * i + 3])) << 16;
    Words<count>::put(to, words);
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < count; ++i) to[i] = Narrow<T>::from(from[i]);
}

// ---- scalar functions; names as in ScalarFunction

#define CAMSHAFT_REAL(T)                                                                                    \
  __device__ __forceinline__ T neg(T a) { return -a; }                                                      \
  __device__ __forceinline__ T abs_(T a) { return fabs(a); }                                                \
  __device__ __forceinline__ T sign(T a) { return a > 0 ? T(1) : a < 0 ? T(-1) : a; }                       \
  __device__ __forceinline__ T round_(T a) { return rint(a); }                                              \
  __device__ __forceinline__ T reciprocal(T a) { return T(1) / a; }                                         \
  __device__ __forceinline__ T sigmoid(T a) { return T(1) / (T(1) + exp(-a)); }                             \
  __device__ __forceinline__ i64 is_nan(T a) { return a != a; }                                             \
  __device__ __forceinline__ i64 is_inf_pos(T a) { return isinf(a) && a > 0; }                              \
  __device__ __forceinline__ i64 is_inf_neg(T a) { return isinf(a) && a < 0; }                              \
  __device__ __forceinline__ T add(T a, T b) { return a + b; }                                              \
  __device__ __forceinline__ T sub(T a, T b) { return a - b; }                                              \
  __device__ __forceinline__ T mul(T a, T b) { return a * b; }                                              \
  __device__ __forceinline__ T div_(T a, T b) { return a / b; }                                             \
  __device__ __forceinline__ T fmod_(T a, T b) { return fmod(a, b); }                                       \
  __device__ __forceinline__ T mod(T a, T b) {                                                              \
    const T r = fmod(a, b);                                                                                 \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                                        \
  }                                                                                                         \
  __device__ __forceinline__ T pow_(T a, T b) { return pow(a, b); }                                         \
  __device__ __forceinline__ T min_(T a, T b) { return a != a ? a : b != b || b < a ? b : a; }              \
  __device__ __forceinline__ T max_(T a, T b) { return a != a ? a : b != b || b > a ? b : a; }
CAMSHAFT_REAL(f32)
CAMSHAFT_REAL(f64)
#undef CAMSHAFT_REAL

#define CAMSHAFT_INTEGER(T)                                                                                 \
  __device__ __forceinline__ T neg(T a) { return T(u64(0) - u64(a)); }                                      \
  __device__ __forceinline__ T abs_(T a) { return a < 0 ? T(u64(0) - u64(a)) : a; }                         \
  __device__ __forceinline__ T sign(T a) { return a > 0 ? T(1) : a < 0 ? T(-1) : T(0); }                    \
  __device__ __forceinline__ T bitwise_not(T a) { return T(~u64(a)); }                                      \
  __device__ __forceinline__ T add(T a, T b) { return T(u64(a) + u64(b)); }                                 \
  __device__ __forceinline__ T sub(T a, T b) { return T(u64(a) - u64(b)); }                                 \
  __device__ __forceinline__ T mul(T a, T b) { return T(u64(a) * u64(b)); }                                 \
  __device__ __forceinline__ T div_(T a, T b) { return b == 0 ? T(0) : b == T(-1) && T(-1) < 0 ? neg(a) : a / b; } \
  __device__ __forceinline__ T fmod_(T a, T b) { return b == 0 || (b == T(-1) && T(-1) < 0) ? T(0) : a % b; } \
  __device__ __forceinline__ T mod(T a, T b) {                                                              \
    const T r = fmod_(a, b);                                                                                \
    return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;                                                     \
  }                                                                                                         \
  __device__ __forceinline__ T pow_(T a, T b) {                                                             \
    if (b < 0) return a == T(1) ? T(1) : a == T(-1) ? T(b % T(2) != 0 ? T(-1) : T(1)) : T(0);               \
    u64 result = 1, factor = u64(a);                                                                        \
    for (u64 e = u64(b); e != 0; e >>= 1, factor *= factor)                                                 \
      if (e & 1) result *= factor;                                                                          \
    return T(result);                                                                                       \
  }                                                                                                         \
  __device__ __forceinline__ T min_(T a, T b) { return b < a ? b : a; }                                     \
  __device__ __forceinline__ T max_(T a, T b) { return b > a ? b : a; }                                     \
  __device__ __forceinline__ T bitwise_and(T a, T b) { return a & b; }                                      \
  __device__ __forceinline__ T bitwise_or(T a, T b) { return a | b; }                                       \
  __device__ __forceinline__ T bitwise_xor(T a, T b) { return a ^ b; }                                      \
  __device__ __forceinline__ T shift_left(T a, T b) { return b < 0 || b >= 64 ? T(0) : T(u64(a) << b); }    \
  __device__ __forceinline__ T shift_right(T a, T b) { return b < 0 || b >= 64 ? (a < 0 ? T(-1) : T(0)) : T(a >> b); }
CAMSHAFT_INTEGER(i64)
CAMSHAFT_INTEGER(u64)
#undef CAMSHAFT_INTEGER

// ---- the same to about 1e-6, for results that are rounded to 16 bits: a third of the instructions

__device__ __forceinline__ f32 exp_rounded(f32 x) { return exp2_approximate(x * 1.44269504f); }
__device__ __forceinline__ f32 sigmoid_rounded(f32 x) { return reciprocal_approximate(1.0f + exp_rounded(-x)); }
__device__ __forceinline__ f32 tanh_rounded(f32 x) {
  const f32 square = x * x;
  const f32 near = x * fmaf(square, fmaf(square, fmaf(square, -0.053968254f, 0.133333333f), -0.333333333f), 1.0f);
  const f32 far = fmaf(-2.0f, reciprocal_approximate(1.0f + exp_rounded(2 * x)), 1.0f);
  return fabsf(x) < 0.125f ? near : far;
}
/// Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26; the first terms of the series near 0.
__device__ __forceinline__ f32 erf_rounded(f32 x) {
  const f32 size = fabsf(x), square = x * x, t = reciprocal_approximate(fmaf(0.3275911f, size, 1.0f));
  const f32 sum = fmaf(fmaf(fmaf(fmaf(1.061405429f, t, -1.453152027f), t, 1.421413741f), t, -0.284496736f), t, 0.254829592f);
  const f32 far = copysignf(fmaf(-sum * t, exp_rounded(-square), 1.0f), x);
  const f32 near = x * fmaf(square, fmaf(square, 0.112837917f, -0.376126389f), 1.128379167f);
  return size < 0.125f ? near : far;
}

/// GELU(x) · steps + zero, for results that are rounded to 8 bits, off by 1.26e-4 · steps at most, or FINE by 5.8e-5:
/// max(x, 0) less a bump around 0, |x| · (1 - Φ(|x|)), of which this is the polynomial of the least largest difference
/// that is constant from `end` on. Its factors are constants where `steps` and `zero` are. NaN stays NaN.
template <bool FINE>
__device__ __forceinline__ f32 gelu_in_steps(f32 x, f32 steps, i32 zero) {
  constexpr f32 end = FINE ? 4.08f : 3.84f;
  constexpr int degree = FINE ? 9 : 7;
  constexpr f32 factors[][10] = {
      {0.00011508658644743264f, -0.49929681420326233f, 0.38326403498649597f, 0.056279633194208145f, -0.150798037648201f, 0.06194912642240524f, -0.010793253779411316f, 0.0007105816621333361f},
      {-4.915563476970419e-05f, -0.49782127141952515f, 0.38316115736961365f, 0.042882539331912994f, -0.12143908441066742f, 0.0338689461350441f, 0.0035990127362310886f, -0.0033977285493165255f, 0.0006160344346426427f, -3.7852514651604e-05f}};
  const f32 size = fminf(fabsf(x), end);
  f32 bump = steps * factors[FINE][degree];
#pragma unroll
  for (int i = degree - 1; i > 0; --i) bump = fmaf(bump, size, steps * factors[FINE][i]);
  bump = fmaf(bump, size, fmaf(steps, factors[FINE][0], f32(zero)));
  return fmaf(larger_or_nan(x, 0.0f), steps, bump);
}

template <class T>
__device__ __forceinline__ i64 equal(T a, T b) {
  return a == b;
}
template <class T>
__device__ __forceinline__ i64 less(T a, T b) {
  return a < b;
}
template <class T>
__device__ __forceinline__ i64 less_or_equal(T a, T b) {
  return a <= b;
}
template <class T>
__device__ __forceinline__ i64 logical_not(T a) {
  return a == T(0);
}
template <class T>
__device__ __forceinline__ i64 logical_and(T a, T b) {
  return a != T(0) && b != T(0);
}
template <class T>
__device__ __forceinline__ i64 logical_or(T a, T b) {
  return a != T(0) || b != T(0);
}
template <class T>
__device__ __forceinline__ i64 logical_xor(T a, T b) {
  return (a != T(0)) != (b != T(0));
}
template <class T>
__device__ __forceinline__ T select(i64 condition, T a, T b) {
  return condition != 0 ? a : b;
}

/// n / divisor
__device__ __forceinline__ u32 divide(u32 n, const Divisor& divisor) {
  const u32 high = __umulhi(n, divisor.multiplier);
  return divisor.shift == 0 ? n : (high + ((n - high) >> 1)) >> (divisor.shift - 1);
}

// The vectorised loops on f32: see tile_kernels.h.
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/cache_line.h"
#include "backends/cpu/kernels/pointwise/tile_kernels.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pointwise/tile_kernels_f32.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/pack_bytes-inl.h"
#include "backends/cpu/kernels/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// Each operation is a struct: a lambda would not inherit the target's instruction set.
#define CAMSHAFT_UNARY(name, expression)               \
  struct name {                                        \
    static constexpr int operands = 1;                 \
    HWY_INLINE Vec operator()(Vec a, Vec, Vec) const { \
      const Tag d;                                     \
      (void)d;                                         \
      return expression;                               \
    }                                                  \
  };
#define CAMSHAFT_BINARY(name, expression)                \
  struct name {                                          \
    static constexpr int operands = 2;                   \
    HWY_INLINE Vec operator()(Vec a, Vec b, Vec) const { \
      const Tag d;                                       \
      (void)d;                                           \
      return expression;                                 \
    }                                                    \
  };
#define CAMSHAFT_TERNARY(name, expression)                 \
  struct name {                                            \
    static constexpr int operands = 3;                     \
    HWY_INLINE Vec operator()(Vec a, Vec b, Vec c) const { \
      const Tag d;                                         \
      (void)d;                                             \
      return expression;                                   \
    }                                                      \
  };

HWY_INLINE Vec sign_of(Vec a) {
  const Tag d;
  // Zero and NaN are neither above nor below zero, and stay themselves.
  const Vec one = hn::Set(d, 1.0f);
  const auto ordered = hn::Or(hn::Lt(a, hn::Zero(d)), hn::Gt(a, hn::Zero(d)));
  return hn::IfThenElse(ordered, hn::CopySign(one, a), a);
}

HWY_INLINE Vec gelu_of(Vec a) {
  const Tag d;
  const Vec half = hn::Mul(a, hn::Set(d, 0.5f));
  const Vec e = erf_f32(d, hn::Mul(a, hn::Set(d, 0.70710678f)));
  return hn::MulAdd(half, e, half);
}

// Operations of one operand that have a form for several vectors at once, which the loop then takes.
struct Sigmoid {
  static constexpr int operands = 1;
  template <int U>
  HWY_INLINE void operator()(const Vec (&a)[U], Vec (&y)[U]) const {
    sigmoid_f32(Tag(), a, y);
  }
};
struct Exp {
  static constexpr int operands = 1;
  template <int U>
  HWY_INLINE void operator()(const Vec (&a)[U], Vec (&y)[U]) const {
    exp_f32(Tag(), a, y);
  }
};
struct Silu {
  static constexpr int operands = 1;
  template <int U>
  HWY_INLINE void operator()(const Vec (&a)[U], Vec (&y)[U]) const {
    sigmoid_f32(Tag(), a, y);
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) y[u] = hn::Mul(a[u], y[u]);
  }
};
// (1 + tanh(z)) / 2 is the sigmoid of 2z.
struct GeluByTanh {
  static constexpr int operands = 1;
  template <int U>
  HWY_INLINE void operator()(const Vec (&a)[U], Vec (&y)[U]) const {
    const Tag d;
    Vec z[U];
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) {
      const Vec cubic = hn::MulAdd(hn::Mul(a[u], a[u]), hn::Set(d, 0.071354816f), hn::Set(d, 1.5957691f));
      z[u] = hn::Mul(a[u], cubic);
    }
    sigmoid_f32(d, z, y);
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) y[u] = hn::Mul(a[u], y[u]);
  }
};
template <class Operation>
constexpr bool takes_several = std::is_invocable_v<Operation, const Vec (&)[4], Vec (&)[4]>;

// One vector of the result.
template <class Operation>
HWY_INLINE Vec result_of(const Operation& operation, Vec a, Vec b, Vec c) {
  if constexpr (takes_several<Operation>) {
    const Vec in[1] = {a};
    Vec out[1];
    operation(in, out);
    return out[0];
  } else {
    return operation(a, b, c);
  }
}

CAMSHAFT_UNARY(Neg, hn::Neg(a))
CAMSHAFT_UNARY(Abs, hn::Abs(a))
CAMSHAFT_UNARY(Sign, sign_of(a))
CAMSHAFT_UNARY(Ceil, hn::Ceil(a))
CAMSHAFT_UNARY(Floor, hn::Floor(a))
CAMSHAFT_UNARY(Round, hn::Round(a))
CAMSHAFT_UNARY(Sqrt, hn::Sqrt(a))
CAMSHAFT_UNARY(Reciprocal, hn::Div(hn::Set(d, 1.0f), a))
CAMSHAFT_UNARY(Log, log_f32(d, a))
CAMSHAFT_UNARY(Log1p, log1p_f32(d, a))
CAMSHAFT_UNARY(Sin, sin_f32(d, a))
CAMSHAFT_UNARY(Cos, cos_f32(d, a))
CAMSHAFT_UNARY(Tanh, tanh_f32(d, a))
CAMSHAFT_UNARY(Asin, asin_f32(d, a))
CAMSHAFT_UNARY(Acos, acos_f32(d, a))
CAMSHAFT_UNARY(Atan, hn::Atan(d, a))
CAMSHAFT_UNARY(Erf, erf_f32(d, a))
CAMSHAFT_BINARY(Add, hn::Add(a, b))
CAMSHAFT_BINARY(Sub, hn::Sub(a, b))
CAMSHAFT_BINARY(Mul, hn::Mul(a, b))
CAMSHAFT_BINARY(Div, hn::Div(a, b))
// The second operand results when either is NaN, so only a NaN in `a` needs putting back.
CAMSHAFT_BINARY(Min, hn::IfThenElse(hn::IsNaN(a), a, min_or_second(a, b)))
CAMSHAFT_BINARY(Max, hn::IfThenElse(hn::IsNaN(a), a, max_or_second(a, b)))
CAMSHAFT_BINARY(MinNumber, min_or_second(b, a))
CAMSHAFT_BINARY(MaxNumber, max_or_second(b, a))
CAMSHAFT_BINARY(AddRelu, max_or_second(hn::Zero(d), hn::Add(a, b)))
CAMSHAFT_TERNARY(MultiplyAdd, hn::MulAdd(a, b, c))
CAMSHAFT_TERNARY(MultiplySub, hn::MulSub(a, b, c))
CAMSHAFT_TERNARY(Clamp, min_or_second(c, max_or_second(b, a)))
CAMSHAFT_UNARY(Square, hn::Mul(a, a))
CAMSHAFT_UNARY(Gelu, gelu_of(a))
CAMSHAFT_BINARY(LeakyRelu, hn::IfThenElse(hn::Lt(a, hn::Zero(d)), hn::Mul(a, b), a))
CAMSHAFT_BINARY(AboveOrZero, hn::IfThenElseZero(hn::Gt(a, b), a))
CAMSHAFT_UNARY(Softsign, hn::Div(a, hn::Add(hn::Abs(a), hn::Set(d, 1.0f))))
#undef CAMSHAFT_UNARY
#undef CAMSHAFT_BINARY
#undef CAMSHAFT_TERNARY

struct ScaledClamp {
  Vec low, high;
  HWY_INLINE Vec operator()(Vec a, Vec b, Vec c) const {
    return min_or_second(high, max_or_second(low, hn::MulAdd(a, b, c)));
  }
};

template <bool kUniform>
HWY_INLINE Vec operand(Vec uniform, const float* p, int64_t i) {
  if constexpr (kUniform) {
    return uniform;
  } else {
    return hn::LoadU(Tag(), p + i);
  }
}

// kUniform: bit k set when operand k is one element. Operands that the operation lacks count as uniform.
template <class Operation, unsigned kUniform>
HWY_NOINLINE void loop(const float* a, const float* b, const float* c, float* out, int64_t n,
                       const Operation& operation = {}) {
  const Tag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Vec ua = hn::Set(d, (kUniform & 1) && a ? *a : 0.0f);
  const Vec ub = hn::Set(d, (kUniform & 2) && b ? *b : 0.0f);
  const Vec uc = hn::Set(d, (kUniform & 4) && c ? *c : 0.0f);
#define CAMSHAFT_AT(i)                                                                                 \
  result_of(operation, operand<(kUniform & 1) != 0>(ua, a, i), operand<(kUniform & 2) != 0>(ub, b, i), \
            operand<(kUniform & 4) != 0>(uc, c, i))
  if (n >= lanes) {
    const bool in_place = out == a || out == b || out == c;
    // Both ends of a row are whole vectors that overlap their neighbours, and what is between them begins where a
    // vector is aligned. Where the output is one of the operands nothing may be read that is written already: the end
    // is computed first there, and the row begins where it does. Elsewhere the end is not, as reading a row from both
    // ends misleads what fetches memory ahead.
    int64_t i = 0;
    if (!in_place && n >= 2 * lanes) {
      hn::StoreU(CAMSHAFT_AT(0), d, out);
      i = lanes - static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) / sizeof(float)) % lanes;
    }
    const bool ragged = (n - i) % lanes != 0;
    const Vec last = ragged && in_place ? CAMSHAFT_AT(n - lanes) : hn::Zero(d);
    if constexpr (takes_several<Operation> && !(kUniform & 1)) {
      for (; i + 4 * lanes <= n; i += 4 * lanes) {
        const Vec x[4] = {hn::LoadU(d, a + i), hn::LoadU(d, a + i + lanes), hn::LoadU(d, a + i + 2 * lanes),
                          hn::LoadU(d, a + i + 3 * lanes)};
        Vec y[4];
        operation(x, y);
#pragma GCC unroll 4
        for (int u = 0; u < 4; ++u) hn::StoreU(y[u], d, out + i + u * lanes);
      }
    }
    for (; i + lanes <= n; i += lanes) hn::StoreU(CAMSHAFT_AT(i), d, out + i);
    if (ragged) hn::StoreU(in_place ? last : CAMSHAFT_AT(n - lanes), d, out + n - lanes);
    return;
  }
#undef CAMSHAFT_AT
  HWY_ALIGN float padded[3][hn::MaxLanes(Tag())] = {};
  const size_t bytes = static_cast<size_t>(n) * sizeof(float);
  if (!(kUniform & 1)) std::memcpy(padded[0], a, bytes);
  if (!(kUniform & 2)) std::memcpy(padded[1], b, bytes);
  if (!(kUniform & 4)) std::memcpy(padded[2], c, bytes);
  const Vec result = result_of(operation, kUniform & 1 ? ua : hn::Load(d, padded[0]),
                               kUniform & 2 ? ub : hn::Load(d, padded[1]), kUniform & 4 ? uc : hn::Load(d, padded[2]));
  hn::Store(result, d, padded[0]);
  std::memcpy(out, padded[0], bytes);
}

template <class Operation>
void kernel(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const float*>(in[0]);
  const auto* b = Operation::operands > 1 ? static_cast<const float*>(in[1]) : nullptr;
  const auto* c = Operation::operands > 2 ? static_cast<const float*>(in[2]) : nullptr;
  auto* o = static_cast<float*>(out);
  if (n == 1) uniform = 0;  // one element either way
  if constexpr (Operation::operands == 1) {
    if (uniform & 1) return loop<Operation, 7>(a, b, c, o, n);
    return loop<Operation, 6>(a, b, c, o, n);
  } else if constexpr (Operation::operands == 2) {
    switch (uniform & 3) {
      case 0:
        return loop<Operation, 4>(a, b, c, o, n);
      case 1:
        return loop<Operation, 5>(a, b, c, o, n);
      case 2:
        return loop<Operation, 6>(a, b, c, o, n);
      default:
        return loop<Operation, 7>(a, b, c, o, n);
    }
  } else {
    switch (uniform & 7) {
      case 0:
        return loop<Operation, 0>(a, b, c, o, n);
      case 1:
        return loop<Operation, 1>(a, b, c, o, n);
      case 2:
        return loop<Operation, 2>(a, b, c, o, n);
      case 3:
        return loop<Operation, 3>(a, b, c, o, n);
      case 4:
        return loop<Operation, 4>(a, b, c, o, n);
      case 5:
        return loop<Operation, 5>(a, b, c, o, n);
      case 6:
        return loop<Operation, 6>(a, b, c, o, n);
      default:
        return loop<Operation, 7>(a, b, c, o, n);
    }
  }
}

void scaled_clamp(const void* const* in, void* out, int64_t n, unsigned) {
  const Tag d;
  const auto at = [&](int k) { return static_cast<const float*>(in[k]); };
  const ScaledClamp operation{hn::Set(d, *at(3)), hn::Set(d, *at(4))};
  loop<ScaledClamp, 6>(at(0), at(1), at(2), static_cast<float*>(out), n, operation);
}

#define CAMSHAFT_PREDICATE(name, vectors, scalars)                              \
  struct name {                                                                 \
    HWY_INLINE hn::Mask<Tag> operator()(Vec a, Vec b) const { return vectors; } \
    static bool of(float a, float b) { return scalars; }                        \
  };
CAMSHAFT_PREDICATE(Equal, hn::Eq(a, b), a == b)
CAMSHAFT_PREDICATE(Less, hn::Lt(a, b), a < b)
CAMSHAFT_PREDICATE(LessOrEqual, hn::Le(a, b), a <= b)
#undef CAMSHAFT_PREDICATE

// Four vectors become one of bytes. The compiler's own loop takes 64 elements at a time and leaves the rest of a row to
// single ones: 10^7 in rows of 1000 took 1.7 ms. So did this one without the wishes for lines, and takes 1.2.
template <class Predicate, unsigned kUniform>
HWY_NOINLINE void compare_loop(const float* a, const float* b, uint8_t* out, int64_t n) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const hn::Rebind<uint8_t, Tag> d8;
  const Predicate holds;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Vec ua = hn::Set(d, *a), ub = hn::Set(d, *b);
  const auto one = hn::Set(di, 1);
  const auto at = [&](int64_t i) HWY_ATTR {
    const auto mask = holds(operand<(kUniform & 1) != 0>(ua, a, i), operand<(kUniform & 2) != 0>(ub, b, i));
    return hn::IfThenElseZero(hn::RebindMask(di, mask), one);
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    fetch_ahead<4 * HWY_LANES(float)>((kUniform & 1 ? b : a) + i);
    const hn::Vec<decltype(di)> whole[4] = {at(i), at(i + lanes), at(i + 2 * lanes), at(i + 3 * lanes)};
    store_bytes(whole, out + i);
  }
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::DemoteTo(d8, at(i)), d8, out + i);
  if (i < n && n >= lanes) return hn::StoreU(hn::DemoteTo(d8, at(n - lanes)), d8, out + n - lanes);
  for (; i < n; ++i) out[i] = Predicate::of(a[kUniform & 1 ? 0 : i], b[kUniform & 2 ? 0 : i]) ? 1 : 0;
}

template <class Predicate>
void compare(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto *a = static_cast<const float*>(in[0]), *b = static_cast<const float*>(in[1]);
  auto* o = static_cast<uint8_t*>(out);
  switch (n == 1 ? 0 : uniform & 3) {
    case 0:
      return compare_loop<Predicate, 0>(a, b, o, n);
    case 1:
      return compare_loop<Predicate, 1>(a, b, o, n);
    case 2:
      return compare_loop<Predicate, 2>(a, b, o, n);
    default:
      std::memset(o, Predicate::of(*a, *b) ? 1 : 0, static_cast<size_t>(n));
  }
}

HWY_INLINE Vec select_lanes(const uint8_t* condition, Vec b, Vec c) {
  const Tag d;
  const hn::RebindToUnsigned<Tag> du;
  const hn::Rebind<uint8_t, Tag> d8;
  const auto wide = hn::PromoteTo(du, hn::LoadU(d8, condition));
  return hn::IfThenElse(hn::RebindMask(d, hn::Ne(wide, hn::Zero(du))), b, c);
}

template <unsigned kUniform>
HWY_INLINE void select_loop(const uint8_t* condition, const float* b, const float* c, float* out, int64_t n) {
  const Tag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Vec ub = hn::Set(d, *b);
  const Vec uc = hn::Set(d, *c);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if constexpr ((kUniform & 2) == 0) fetch_ahead<HWY_LANES(float)>(b + i);
    if constexpr ((kUniform & 4) == 0) fetch_ahead<HWY_LANES(float)>(c + i);
    const Vec x = operand<(kUniform & 2) != 0>(ub, b, i);
    const Vec y = operand<(kUniform & 4) != 0>(uc, c, i);
    hn::StoreU(select_lanes(condition + i, x, y), d, out + i);
  }
  for (; i < n; ++i) out[i] = condition[i] ? b[kUniform & 2 ? 0 : i] : c[kUniform & 4 ? 0 : i];
}

void select(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* condition = static_cast<const uint8_t*>(in[0]);
  const auto* b = static_cast<const float*>(in[1]);
  const auto* c = static_cast<const float*>(in[2]);
  auto* o = static_cast<float*>(out);
  if (n == 1) uniform = 0;
  if (uniform & 1) {
    const bool first = *condition != 0;
    const float* source = first ? b : c;
    const bool one = uniform & (first ? 2u : 4u);
    if (one) {
      const float value = *source;
      for (int64_t i = 0; i < n; ++i) o[i] = value;
    } else if (o != source) {
      std::memcpy(o, source, static_cast<size_t>(n) * sizeof(float));
    }
    return;
  }
  switch (uniform & 6) {
    case 0:
      return select_loop<0>(condition, b, c, o, n);
    case 2:
      return select_loop<2>(condition, b, c, o, n);
    case 4:
      return select_loop<4>(condition, b, c, o, n);
    default:
      return select_loop<6>(condition, b, c, o, n);
  }
}

TileKernel f32_kernel(ScalarFunction function) {
  switch (function) {
    case ScalarFunction::neg:
      return kernel<Neg>;
    case ScalarFunction::abs:
      return kernel<Abs>;
    case ScalarFunction::sign:
      return kernel<Sign>;
    case ScalarFunction::ceil:
      return kernel<Ceil>;
    case ScalarFunction::floor:
      return kernel<Floor>;
    case ScalarFunction::round:
      return kernel<Round>;
    case ScalarFunction::sqrt:
      return kernel<Sqrt>;
    case ScalarFunction::reciprocal:
      return kernel<Reciprocal>;
    case ScalarFunction::exp:
      return kernel<Exp>;
    case ScalarFunction::log:
      return kernel<Log>;
    case ScalarFunction::log1p:
      return kernel<Log1p>;
    case ScalarFunction::sin:
      return kernel<Sin>;
    case ScalarFunction::cos:
      return kernel<Cos>;
    case ScalarFunction::tanh:
      return kernel<Tanh>;
    case ScalarFunction::asin:
      return kernel<Asin>;
    case ScalarFunction::acos:
      return kernel<Acos>;
    case ScalarFunction::atan:
      return kernel<Atan>;
    case ScalarFunction::erf:
      return kernel<Erf>;
    case ScalarFunction::sigmoid:
      return kernel<Sigmoid>;
    case ScalarFunction::add:
      return kernel<Add>;
    case ScalarFunction::sub:
      return kernel<Sub>;
    case ScalarFunction::mul:
      return kernel<Mul>;
    case ScalarFunction::div:
      return kernel<Div>;
    case ScalarFunction::min:
      return kernel<Min>;
    case ScalarFunction::max:
      return kernel<Max>;
    case ScalarFunction::equal:
      return compare<Equal>;
    case ScalarFunction::less:
      return compare<Less>;
    case ScalarFunction::less_or_equal:
      return compare<LessOrEqual>;
    case ScalarFunction::select:
      return select;
    default:
      return nullptr;
  }
}

TileKernel f32_fused(FusedFunction function) {
  switch (function) {
    case FusedFunction::mul_add:
      return kernel<MultiplyAdd>;
    case FusedFunction::mul_sub:
      return kernel<MultiplySub>;
    case FusedFunction::square:
      return kernel<Square>;
    case FusedFunction::silu:
      return kernel<Silu>;
    case FusedFunction::gelu:
      return kernel<Gelu>;
    case FusedFunction::gelu_by_tanh:
      return kernel<GeluByTanh>;
    case FusedFunction::leaky_relu:
      return kernel<LeakyRelu>;
    case FusedFunction::softsign:
      return kernel<Softsign>;
    case FusedFunction::above_or_zero:
      return kernel<AboveOrZero>;
    case FusedFunction::scaled_clamp:
      return scaled_clamp;
    case FusedFunction::clamp:
      return kernel<Clamp>;
    case FusedFunction::add_relu:
      return kernel<AddRelu>;
    case FusedFunction::max_number:
      return kernel<MaxNumber>;
    case FusedFunction::min_number:
      return kernel<MinNumber>;
    default:
      break;
  }
  return nullptr;
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(f32_kernel);
HWY_EXPORT(f32_fused);

TileKernel find_f32_kernel(ScalarFunction function) {
  return HWY_DYNAMIC_DISPATCH(f32_kernel)(function);
}
TileKernel find_f32_fused(FusedFunction function) {
  return HWY_DYNAMIC_DISPATCH(f32_fused)(function);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE

// Activations over a block that lies in L1. Included once per instruction set.
#if defined(CAMSHAFT_CPU_ACTIVATION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_ACTIVATION_INL_H
#undef CAMSHAFT_CPU_ACTIVATION_INL_H
#else
#define CAMSHAFT_CPU_ACTIVATION_INL_H
#endif

#include <hwy/highway.h>

#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/pointwise/activation.h"
#include "backends/cpu/kernels/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace activation {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// The parameters as vectors, for the loop to keep in registers.
struct Parameters {
  explicit Parameters(const Activation& p)
      : a(hn::Set(Tag(), p.a)),
        b(hn::Set(Tag(), p.b)),
        cubic(hn::Set(Tag(), p.cubic)),
        lo(hn::Set(Tag(), p.lo)),
        hi(hn::Set(Tag(), p.hi)),
        scale(hn::Set(Tag(), p.scale)),
        shift(hn::Set(Tag(), p.shift)),
        offset(hn::Set(Tag(), p.offset)) {}
  Vec a, b, cubic, lo, hi, scale, shift, offset;
};

// The bits of 2^(j / 32) less j << 18: adding 32 n + j, shifted by 18, makes them those of 2^(n + j / 32).
HWY_ALIGN constexpr int32_t kPowers[32] = {
    0x3f800000, 0x3f7ecd87, 0x3f7daac3, 0x3f7c980f, 0x3f7b95c2, 0x3f7aa43a, 0x3f79c3d3, 0x3f78f4f0,
    0x3f7837f0, 0x3f778d3a, 0x3f76f532, 0x3f767043, 0x3f75fed7, 0x3f75a15b, 0x3f75583f, 0x3f7523f6,
    0x3f7504f3, 0x3f74fbaf, 0x3f7508a4, 0x3f752c4d, 0x3f75672a, 0x3f75b9be, 0x3f76248c, 0x3f76a81e,
    0x3f7744fd, 0x3f77fbb8, 0x3f78ccdf, 0x3f79b907, 0x3f7ac0c7, 0x3f7be4ba, 0x3f7d257d, 0x3f7e83b3};

// n in steps of 1/32, whose fractions index a table in two registers, leaves 2^f on |f| <= 1/64 to a polynomial of two
// steps. (SiLU: 4.0 cycles a vector on Zen 5, 5.4 with whole n and five steps.)
template <int U>
HWY_INLINE void one_plus_exp_by_table(const Vec (&x)[U], Vec (&sum)[U]) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const Vec magic = hn::Set(d, 393216.0f);  // 1.5 * 2^18: the sum's last bit counts 1/32
  const auto low = hn::Load(di, kPowers), high = hn::Load(di, kPowers + 16);
  Vec f[U], rounded[U];
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) f[u] = max_or_second(hn::Set(d, -88.72284f), min_or_second(hn::Set(d, 87.33654f), x[u]));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) rounded[u] = hn::MulAdd(f[u], hn::Set(d, -1.442695041f), magic);
    // What is left is -f.
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) f[u] = hn::MulAdd(f[u], hn::Set(d, 1.442695041f), hn::Sub(rounded[u], magic));
  Vec(&p)[U] = sum;
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(hn::Set(d, 2.402265370e-01f), f[u], hn::Set(d, -6.931573153e-01f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(p[u], f[u], hn::Set(d, 1.0f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) {
    const auto steps = hn::BitCast(di, rounded[u]);
    const auto power = look_up_32(low, high, steps);
    sum[u] = hn::MulAdd(p[u], hn::BitCast(d, hn::Add(power, hn::ShiftLeft<18>(steps))), hn::Set(d, 1.0f));
  }
}

// With whole n: the polynomial is 2^f on |f| < 1/2, fitted by reweighted least squares.
template <int U>
HWY_INLINE void one_plus_exp_of_whole_powers(const Vec (&x)[U], Vec (&sum)[U]) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const Vec magic = hn::Set(d, 12582912.0f);  // as in exp_reduced()
  Vec f[U];
  hn::Vec<decltype(di)> n[U];
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) f[u] = hn::Mul(x[u], hn::Set(d, -1.442695041f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) f[u] = max_or_second(hn::Set(d, -126.0f), min_or_second(hn::Set(d, 128.0f), f[u]));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) {
    const Vec rounded = hn::Add(f[u], magic);
    n[u] = hn::ShiftLeft<23>(hn::BitCast(di, rounded));
    f[u] = hn::Sub(f[u], hn::Sub(rounded, magic));
  }
  Vec(&p)[U] = sum;
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(hn::Set(d, 1.326472731e-03f), f[u], hn::Set(d, 9.671512991e-03f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(p[u], f[u], hn::Set(d, 5.550733581e-02f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(p[u], f[u], hn::Set(d, 2.402224243e-01f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(p[u], f[u], hn::Set(d, 6.931470037e-01f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(p[u], f[u], hn::Set(d, 1.0f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) sum[u] = hn::Add(hn::BitCast(d, hn::Add(hn::BitCast(di, p[u]), n[u])), hn::Set(d, 1.0f));
}

// 1 + e^-x, for sigmoids that something is multiplied with: of those the absolute error counts, which is below 1.5e-7
// (1.2e-8 in the mean). e^-x = 2^n 2^f with n + f = -x log2 e. At the lower clamp f is next to 0, 2^n infinite and so
// the sum: what is 0 in the end is exactly 0. All steps of U vectors side by side: one after the other they fill the
// scheduler with operations that wait. (As a quotient of two polynomials SiLU took 7.7 cycles a vector on Zen 5. With
// errors of 3e-7 EfficientNet-B0's output is off by twice as much.)
template <int U>
HWY_INLINE void one_plus_exp_negative(const Vec (&x)[U], Vec (&sum)[U]) {
  if constexpr (kTarget.tables_of_32) {
    one_plus_exp_by_table(x, sum);
  } else {
    one_plus_exp_of_whole_powers(x, sum);
  }
}

// `kSilu`: a = scale = 1, the rest 0.
template <Activation::Core kCore, bool kGated, bool kSilu, int U>
HWY_INLINE void apply(const Parameters& p, Vec (&x)[U]) {
  using Core = Activation::Core;
  const Tag d;
  Vec y[U];
  if constexpr (kSilu) {
    one_plus_exp_negative(x, y);
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) x[u] = hn::Div(x[u], y[u]);
    return;
  }
  Vec z[U];
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) {
    Vec a = p.a;
    if constexpr (kCore == Core::tanh_cubic) a = hn::MulAdd(hn::Mul(x[u], x[u]), p.cubic, a);
    z[u] = hn::MulAdd(x[u], a, p.b);
  }
  if constexpr (kCore == Core::sigmoid && kGated) one_plus_exp_negative(z, y);
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) {
    if constexpr (kCore == Core::clamp) {
      y[u] = clamp_keeping_nan(z[u], p.lo, p.hi);
    } else if constexpr (kCore == Core::sigmoid && !kGated) {
      y[u] = sigmoid_f32(d, z[u]);
    } else if constexpr (kCore == Core::sigmoid) {
      y[u] = hn::Div(hn::Set(d, 1.0f), y[u]);
    } else if constexpr (kCore == Core::tanh || kCore == Core::tanh_cubic) {
      y[u] = tanh_f32(d, z[u]);
    } else if constexpr (kCore == Core::erf) {
      y[u] = erf_f32(d, z[u]);
    } else if constexpr (kCore == Core::slope) {
      y[u] = hn::IfThenElse(hn::Lt(z[u], hn::Zero(d)), p.lo, p.hi);
    }
    y[u] = hn::MulAdd(y[u], p.scale, p.shift);
    x[u] = kGated ? hn::MulAdd(x[u], y[u], p.offset) : y[u];
  }
}

// The next vectors of a block, row by row.
struct Cursor {
  float* c;
  const float* addend;
  int64_t column, whole, stride, addend_stride;

  HWY_INLINE void next(float*& at, const float*& addend_at) {
    at = c + column;
    addend_at = addend + column;
    column += static_cast<int64_t>(HWY_LANES(float));
    if (column < whole) return;
    column = 0;
    c += stride;
    addend += addend_stride;
  }
};

template <Activation::Core kCore, bool kGated, bool kSilu, bool kAdds, int U>
HWY_INLINE void apply_next(const Parameters& p, Cursor& cursor) {
  const Tag d;
  float* at[U];
  const float* addend[U];
  Vec x[U];
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) {
    cursor.next(at[u], addend[u]);
    x[u] = hn::LoadU(d, at[u]);
  }
  apply<kCore, kGated, kSilu>(p, x);
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) hn::StoreU(kAdds ? hn::Add(x[u], hn::LoadU(d, addend[u])) : x[u], d, at[u]);
}

template <Activation::Core kCore, bool kGated, bool kSilu, bool kAdds>
HWY_INLINE void apply_whole_vectors(const Parameters& p, Cursor cursor, int64_t count) {
  for (; count >= 4; count -= 4) apply_next<kCore, kGated, kSilu, kAdds, 4>(p, cursor);
  for (; count >= 2; count -= 2) apply_next<kCore, kGated, kSilu, kAdds, 2>(p, cursor);
  if (count > 0) apply_next<kCore, kGated, kSilu, kAdds, 1>(p, cursor);
}

template <Activation::Core kCore, bool kGated, bool kSilu = false>
HWY_NOINLINE void apply_block(const Activation& activation, const ActivationBlock& block) {
  const Tag d;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  const Parameters p(activation);
  const int64_t vectors = block.columns / lanes, whole = vectors * lanes;
  const Cursor cursor{block.c, block.addend, 0, whole, block.stride, block.addend_stride};
  if (block.addend) {
    apply_whole_vectors<kCore, kGated, kSilu, true>(p, cursor, block.rows * vectors);
  } else {
    apply_whole_vectors<kCore, kGated, kSilu, false>(p, cursor, block.rows * vectors);
  }
  if (whole == block.columns) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(block.columns - whole));
  for (int64_t r = 0; r < block.rows; ++r) {
    float* c = block.c + r * block.stride + whole;
    Vec x[1] = {masked_load(mask, d, c)};
    apply<kCore, kGated, kSilu>(p, x);
    if (block.addend) x[0] = hn::Add(x[0], masked_load(mask, d, block.addend + r * block.addend_stride + whole));
    masked_store(x[0], mask, d, c);
  }
}

}  // namespace activation

/// c = activation(c) + addend, in place.
HWY_INLINE void activate(const Activation& a, ActivationBlock block) {
  using Core = Activation::Core;
  // Dense rows are one.
  if (block.columns == block.stride && (!block.addend || block.addend_stride == block.stride)) {
    block.columns *= block.rows;
    block.rows = 1;
  }
  switch (a.core) {
    case Core::clamp:
      return a.gated ? activation::apply_block<Core::clamp, true>(a, block)
                     : activation::apply_block<Core::clamp, false>(a, block);
    case Core::sigmoid:
      if (a == Activation{.core = Core::sigmoid, .gated = true})
        return activation::apply_block<Core::sigmoid, true, true>(a, block);
      return a.gated ? activation::apply_block<Core::sigmoid, true>(a, block)
                     : activation::apply_block<Core::sigmoid, false>(a, block);
    case Core::tanh:
      return a.gated ? activation::apply_block<Core::tanh, true>(a, block)
                     : activation::apply_block<Core::tanh, false>(a, block);
    case Core::tanh_cubic:
      return a.gated ? activation::apply_block<Core::tanh_cubic, true>(a, block)
                     : activation::apply_block<Core::tanh_cubic, false>(a, block);
    case Core::erf:
      return a.gated ? activation::apply_block<Core::erf, true>(a, block)
                     : activation::apply_block<Core::erf, false>(a, block);
    case Core::slope:
      return a.gated ? activation::apply_block<Core::slope, true>(a, block)
                     : activation::apply_block<Core::slope, false>(a, block);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif

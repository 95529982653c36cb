// Activations over a block that lies in L1. Included once per instruction set.
#if defined(CAMSHAFT_CPU_ACTIVATION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_ACTIVATION_INL_H
#undef CAMSHAFT_CPU_ACTIVATION_INL_H
#else
#define CAMSHAFT_CPU_ACTIVATION_INL_H
#endif

#include <hwy/highway.h>

#include "cpu/kernels/activation.h"
#include "cpu/kernels/clamp-inl.h"
#include "cpu/kernels/masked_load-inl.h"
#include "cpu/kernels/vector_math-inl.h"

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

// The sigmoid that x is multiplied with: what counts is its absolute error, which is below 2e-7 (3e-8 in the mean), and
// 0 for what is exactly 0 in the end. z P(z^2) / Q(z^2) + 1/2 on |z| < 17, fitted by reweighted least squares; 17
// operations where sigmoid_f32 has 24, and EfficientNet-B0 spends a sixth of its time here. (With a P of one degree
// less the error is 3e-7, which that model amplifies to twice the error of its output.)
HWY_INLINE Vec sigmoid_gate(Vec x) {
  const Tag d;
  const Vec limit = hn::Set(d, 17.0f);
  const Vec z = max_or_second(hn::Neg(limit), min_or_second(limit, x));
  const Vec s = hn::Mul(z, z);
  Vec q = hn::MulAdd(s, hn::Set(d, 3.153823647e-09f), hn::Set(d, 5.212072665e-06f));
  Vec p = hn::MulAdd(s, hn::Set(d, 1.376914641e-11f), hn::Set(d, 8.250744088e-08f));
  q = hn::MulAdd(q, s, hn::Set(d, 1.624451834e-03f));
  p = hn::MulAdd(p, s, hn::Set(d, 5.509129551e-05f));
  q = hn::MulAdd(q, s, hn::Set(d, 1.168488488e-01f));
  p = hn::MulAdd(p, s, hn::Set(d, 8.378892206e-03f));
  q = hn::MulAdd(q, s, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, s, hn::Set(d, 2.499999851e-01f));
  const Vec g = hn::Add(hn::Div(hn::Mul(p, z), q), hn::Set(d, 0.5f));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Neg(limit)), g);
}

// `kSilu`: a = scale = 1, the rest 0.
template <Activation::Core kCore, bool kGated, bool kSilu = false>
HWY_INLINE Vec apply(const Parameters& p, Vec x) {
  using Core = Activation::Core;
  const Tag d;
  if constexpr (kSilu) return hn::Mul(x, sigmoid_gate(x));
  Vec a = p.a;
  if constexpr (kCore == Core::tanh_cubic) a = hn::MulAdd(hn::Mul(x, x), p.cubic, a);
  const Vec z = hn::MulAdd(x, a, p.b);
  Vec y;
  if constexpr (kCore == Core::clamp) {
    y = clamp_keeping_nan(z, p.lo, p.hi);
  } else if constexpr (kCore == Core::sigmoid) {
    y = kGated ? sigmoid_gate(z) : sigmoid_f32(d, z);
  } else if constexpr (kCore == Core::tanh || kCore == Core::tanh_cubic) {
    y = tanh_f32(d, z);
  } else if constexpr (kCore == Core::erf) {
    y = erf_f32(d, z);
  } else {
    y = hn::IfThenElse(hn::Lt(z, hn::Zero(d)), p.lo, p.hi);
  }
  y = hn::MulAdd(y, p.scale, p.shift);
  return kGated ? hn::MulAdd(x, y, p.offset) : y;
}

template <Activation::Core kCore, bool kGated, bool kSilu = false>
HWY_NOINLINE void apply_block(const Activation& activation, const ActivationBlock& block) {
  const Tag d;
  const int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  const Parameters p(activation);
  const int64_t whole = block.columns / lanes * lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(block.columns - whole));
  for (int64_t r = 0; r < block.rows; ++r) {
    float* c = block.c + r * block.stride;
    const float* addend = block.addend ? block.addend + r * block.addend_stride : nullptr;
    for (int64_t i = 0; i < whole; i += lanes) {
      Vec y = apply<kCore, kGated, kSilu>(p, hn::LoadU(d, c + i));
      if (addend) y = hn::Add(y, hn::LoadU(d, addend + i));
      hn::StoreU(y, d, c + i);
    }
    if (whole == block.columns) continue;
    Vec y = apply<kCore, kGated, kSilu>(p, masked_load(mask, d, c + whole));
    if (addend) y = hn::Add(y, masked_load(mask, d, addend + whole));
    hn::BlendedStore(y, mask, d, c + whole);
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

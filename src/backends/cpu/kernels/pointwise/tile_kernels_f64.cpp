// The loops on f64 that the compiler does not make vectors of: see tile_kernels.h.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/kernels/pointwise/tile_kernels.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pointwise/tile_kernels_f64.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/pointwise/vector_math_f64-inl.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<double>;
using Vec = hn::Vec<Tag>;

// Highway's sine and cosine are for these arguments; errors are 4 units in the last place, of its tanh 6.
constexpr double largest_angle = 39000;

struct Sqrt {
  HWY_INLINE Vec operator()(Vec a) const { return hn::Sqrt(a); }
  static bool covers(double) { return true; }
  static double of(double a) { return std::sqrt(a); }
};
struct Exp {
  HWY_INLINE Vec operator()(Vec a) const {
    auto exponent = hn::Zero(hn::RebindToSigned<Tag>());
    const Vec p = exp_reduced_f64(Tag(), a, exponent);
    return hn::Mul(p, power_of_two_f64(Tag(), exponent));
  }
  static bool covers(double a) { return std::fabs(a) <= 708; }  // normal numbers
  static double of(double a) { return std::exp(a); }
};
struct Tanh {
  HWY_INLINE Vec operator()(Vec a) const { return hn::Tanh(Tag(), a); }
  static bool covers(double a) { return std::isfinite(a); }
  static double of(double a) { return std::tanh(a); }
};
struct Sin {
  HWY_INLINE Vec operator()(Vec a) const { return hn::Sin(Tag(), a); }
  static bool covers(double a) { return std::fabs(a) <= largest_angle; }
  static double of(double a) { return std::sin(a); }
};
struct Cos {
  HWY_INLINE Vec operator()(Vec a) const { return hn::Cos(Tag(), a); }
  static bool covers(double a) { return std::fabs(a) <= largest_angle; }
  static double of(double a) { return std::cos(a); }
};

template <class Operation>
void kernel(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const Tag d;
  const Operation operation;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* a = static_cast<const double*>(in[0]);
  auto* o = static_cast<double*>(out);
  if (uniform & 1) {
    std::fill_n(o, n, Operation::of(*a));
    return;
  }
  HWY_ALIGN double lane[hn::MaxLanes(Tag())] = {};
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t count = std::min(lanes, n - i);
    if (count < lanes) std::memcpy(lane, a + i, static_cast<size_t>(count) * sizeof(double));
    const double* from = count < lanes ? lane : a + i;
    bool covered = true;
    for (int64_t k = 0; k < count; ++k) covered &= Operation::covers(from[k]);
    if (covered && count == lanes) {
      hn::StoreU(operation(hn::LoadU(d, from)), d, o + i);
      continue;
    }
    // Lanes of a vector that is filled up hold what was there before, numbers that are covered.
    HWY_ALIGN double result[hn::MaxLanes(Tag())];
    if (covered) {
      hn::Store(operation(hn::Load(d, lane)), d, result);
    } else {
      for (int64_t k = 0; k < count; ++k) result[k] = Operation::of(from[k]);
      if (count < lanes) std::memset(lane, 0, sizeof(lane));
    }
    std::memcpy(o + i, result, static_cast<size_t>(count) * sizeof(double));
  }
}

TileKernel f64_kernel(ScalarFunction function) {
  switch (function) {
    case ScalarFunction::sqrt:
      return kernel<Sqrt>;
    case ScalarFunction::exp:
      return kernel<Exp>;
    case ScalarFunction::tanh:
      return kernel<Tanh>;
    case ScalarFunction::sin:
      return kernel<Sin>;
    case ScalarFunction::cos:
      return kernel<Cos>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(f64_kernel);

TileKernel find_f64_kernel(ScalarFunction function) {
  return HWY_DYNAMIC_DISPATCH(f64_kernel)(function);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE

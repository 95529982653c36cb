// The functions of one element that models put behind contractions, in one parametrised form that kernels apply to a
// tile while it is in L1. (A SiLU as a separate pass over blocks took 25 % of EfficientNet-B0's time.)
#pragma once

#include <cstdint>
#include <limits>

namespace camshaft::cpu {

/// y = (scale * core(z) + shift) * (gated ? x : 1) + offset, with z = a * x + b + cubic * x^3.
///
/// Hard-swish is a gated clamp, hard-sigmoid a plain one, SiLU a gated sigmoid, GELU a gated erf or, in its other form,
/// a gated tanh with a cubic, leaky ReLU a gated slope.
struct Activation {
  enum class Core : uint8_t {
    clamp,    ///< z clamped to [lo, hi]; NaN stays NaN
    sigmoid,  ///< a plain one is accurate to its last places however small, a gate to 2e-7 absolutely
    tanh,
    tanh_cubic,  ///< tanh too: the only one that looks at `cubic`
    erf,
    slope,  ///< lo where z < 0, else hi
  };
  Core core = Core::clamp;
  bool gated = false;
  float a = 1, b = 0, cubic = 0;
  float lo = -std::numeric_limits<float>::infinity();
  float hi = std::numeric_limits<float>::infinity();
  float scale = 1, shift = 0, offset = 0;

  bool operator==(const Activation&) const = default;
};

/// A rectangle of a row-major matrix, in floats, and what is added to it after the activation.
struct ActivationBlock {
  float* c = nullptr;
  int64_t stride = 0;
  int64_t rows = 0, columns = 0;
  const float* addend = nullptr;  ///< or none; does not overlap c
  int64_t addend_stride = 0;
};

}  // namespace camshaft::cpu

#include "backends/cpu/kernels/pointwise/tile_kernels.h"

namespace camshaft::cpu {

int tile_cost(ScalarFunction function, DType lanes) {
  const bool vectorised = lanes == DType::f32 || lanes == DType::f16 || lanes == DType::bf16;
  switch (function) {
    case ScalarFunction::exp:
    case ScalarFunction::sigmoid:
    case ScalarFunction::tanh:
    case ScalarFunction::erf:
      return vectorised ? 6 : 100;
    case ScalarFunction::log:
    case ScalarFunction::log1p:
    case ScalarFunction::sin:
    case ScalarFunction::cos:
      return vectorised ? 12 : 100;
    case ScalarFunction::div:
    case ScalarFunction::sqrt:
    case ScalarFunction::reciprocal:
      return vectorised ? 2 : 20;
    case ScalarFunction::asin:
    case ScalarFunction::acos:
    case ScalarFunction::atan:
      return vectorised ? 12 : 100;
    case ScalarFunction::tan:
    case ScalarFunction::sinh:
    case ScalarFunction::cosh:
    case ScalarFunction::asinh:
    case ScalarFunction::acosh:
    case ScalarFunction::atanh:
    case ScalarFunction::mod:
    case ScalarFunction::fmod:
    case ScalarFunction::pow:
      return 100;
    default:
      return vectorised ? 1 : 4;
  }
}

}  // namespace camshaft::cpu

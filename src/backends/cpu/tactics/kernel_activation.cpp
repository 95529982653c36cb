#include "backends/cpu/tactics/kernel_activation.h"

namespace camshaft::cpu {

std::optional<Activation> kernel_activation(const ActivationFunction& f) {
  using Core = ActivationFunction::Core;
  Activation made;
  switch (f.core) {
    case Core::clamp:
      made.core = Activation::Core::clamp;
      break;
    case Core::sigmoid:
      made.core = Activation::Core::sigmoid;
      break;
    case Core::tanh:
      made.core = f.cubic != 0 ? Activation::Core::tanh_cubic : Activation::Core::tanh;
      break;
    case Core::erf:
      made.core = Activation::Core::erf;
      break;
    case Core::slope:
      made.core = Activation::Core::slope;
      break;
    case Core::softplus:
    case Core::tanh_of_softplus:
      return std::nullopt;
  }
  made.gated = f.gated;
  made.a = static_cast<float>(f.a);
  made.b = static_cast<float>(f.b);
  made.cubic = static_cast<float>(f.cubic);
  made.lo = static_cast<float>(f.lo);
  made.hi = static_cast<float>(f.hi);
  made.scale = static_cast<float>(f.scale);
  made.shift = static_cast<float>(f.shift);
  made.offset = static_cast<float>(f.offset);
  return made;
}

}  // namespace camshaft::cpu

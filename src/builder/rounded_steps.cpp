#include "builder/rounded_steps.h"

#include <cmath>

#include "ir/ops/pointwise.h"

namespace camshaft {

namespace {

template <class T>
Tensor moved(const Tensor& rounded, const Tensor& unrounded, const EdgeReach& reach, Random* random) {
  Tensor made(rounded.dtype(), rounded.dims());
  for (int64_t i = 0; i < rounded.size(); ++i) {
    T& step = made.as_mutable<T>()[i] = rounded.as<T>()[i];
    const double beyond = static_cast<double>(unrounded.as<T>()[i]) - static_cast<double>(step);
    if (!(0.5 - std::fabs(beyond) <= reach[static_cast<size_t>(i)])) continue;
    if (random == nullptr || (random->next() & 1) != 0) step += beyond < 0 ? T(-1) : T(1);
  }
  return made;
}

}  // namespace

bool rounds_to_steps(const Node& node) {
  const auto* scalar = node.op.as<ops::Pointwise>();
  return scalar && scalar->function == ScalarFunction::round;
}

Tensor across_edges(const Tensor& rounded, const Tensor& unrounded, const EdgeReach& reach, Random* random) {
  if (rounded.dtype() == DType::f32) return moved<float>(rounded, unrounded, reach, random);
  if (rounded.dtype() == DType::f64) return moved<double>(rounded, unrounded, reach, random);
  return rounded;
}

}  // namespace camshaft

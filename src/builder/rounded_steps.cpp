#include "builder/rounded_steps.h"

#include "ir/ops/pointwise.h"

namespace camshaft {

namespace {

template <class T>
Tensor moved(const Tensor& exact, Random& random) {
  Tensor made(exact.dtype(), exact.dims());
  for (int64_t i = 0; i < exact.size(); ++i)
    made.as_mutable<T>()[i] = exact.as<T>()[i] + static_cast<T>((random.next() & 1) != 0 ? 1 : -1);
  return made;
}

}  // namespace

bool rounds_to_steps(const Node& node) {
  const auto* scalar = node.op.as<ops::Pointwise>();
  return scalar && scalar->function == ScalarFunction::round;
}

Tensor with_steps(const Tensor& exact, Random& random) {
  if (exact.dtype() == DType::f32) return moved<float>(exact, random);
  if (exact.dtype() == DType::f64) return moved<double>(exact, random);
  return exact;
}

}  // namespace camshaft

#include "builder/rounded_steps.h"

#include <cmath>

#include "base/float_types.h"
#include "ir/ops/float8.h"
#include "ir/ops/pointwise.h"

namespace camshaft {

namespace {

template <class T>
Tensor moved(const Tensor& rounded, const Tensor& unrounded, const EdgeReach& reach, Random* random) {
  Tensor made(rounded.dtype(), rounded.dims());
  for (int64_t i = 0; i < rounded.size(); ++i) {
    T& step = made.as_mutable<T>()[i] = rounded.as<T>()[i];
    const double beyond = static_cast<double>(unrounded.as<T>()[i]) - static_cast<double>(step);
    const double edges = std::floor(std::fabs(beyond) + reach[static_cast<size_t>(i)] + 0.5);
    if (!(edges >= 1 && std::isfinite(edges))) continue;
    if (random == nullptr || (random->next() & 1) != 0) step += static_cast<T>(beyond < 0 ? -edges : edges);
  }
  return made;
}

// Codes of 8-bit floats in the order of their numbers; both zeros are 0.
int order_of(uint8_t code) {
  const int size = code & 0x7f;
  return (code & 0x80) != 0 ? -size : size;
}
uint8_t code_of(int order) {
  return static_cast<uint8_t>(order < 0 ? 0x80 | -order : order);
}

// The same of 8-bit floats, whose steps grow with the numbers; what is beyond the largest one stays there.
Tensor moved_float8(const Tensor& rounded, const Tensor& unrounded, const EdgeReach& reach, Random* random) {
  const bool is_e4m3 = rounded.dtype() == DType::f8e4m3;
  const int largest = is_e4m3 ? 0x7e : 0x7b;
  const auto number = [&](int order) {
    return static_cast<double>(is_e4m3 ? f8e4m3_to_float(code_of(order)) : f8e5m2_to_float(code_of(order)));
  };
  Tensor made(rounded.dtype(), rounded.dims());
  for (int64_t i = 0; i < rounded.size(); ++i) {
    uint8_t& code = made.as_mutable<uint8_t>()[i] = rounded.as<uint8_t>()[i];
    const int here = order_of(code);
    const double exact = static_cast<double>(unrounded.as<float>()[i]);
    const int next = exact > number(here) ? here + 1 : here - 1;
    if (std::abs(here) > largest || std::abs(next) > largest || exact == number(here)) continue;
    const double to_edge = std::fabs((number(here) + number(next)) / 2 - exact);
    if (!(to_edge <= reach[static_cast<size_t>(i)])) continue;
    if (random == nullptr || (random->next() & 1) != 0) code = code_of(next);
  }
  return made;
}

}  // namespace

bool rounds_to_steps(const Node& node) {
  const auto* scalar = node.op.as<ops::Pointwise>();
  const auto* cast = node.op.as<ops::Cast>();
  return (scalar && scalar->function == ScalarFunction::round) || (cast && ops::is_float8(cast->to));
}

Tensor across_edges(const Tensor& rounded, const Tensor& unrounded, const EdgeReach& reach, Random* random) {
  if (rounded.dtype() == DType::f32) return moved<float>(rounded, unrounded, reach, random);
  if (rounded.dtype() == DType::f64) return moved<double>(rounded, unrounded, reach, random);
  if (ops::is_float8(rounded.dtype()) && unrounded.dtype() == DType::f32)
    return moved_float8(rounded, unrounded, reach, random);
  return rounded;
}

}  // namespace camshaft

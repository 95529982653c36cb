#include "backends/cuda/codegen/rounded_steps.h"

#include <cmath>

namespace camshaft::cuda {

std::optional<RoundedSteps> rounded_steps(const ScalarProgram& program, int32_t i) {
  using Kind = ScalarInstruction::Kind;
  const auto at = [&](int32_t n) -> const ScalarInstruction& { return program.instructions[static_cast<size_t>(n)]; };
  const ScalarInstruction& last = at(i);
  if (last.kind != Kind::cast || (last.dtype != DType::i8 && last.dtype != DType::u8)) return std::nullopt;
  RoundedSteps steps{.value = last.a};
  if (const ScalarInstruction& sum = at(steps.value); sum.kind == Kind::apply && sum.function == ScalarFunction::add) {
    const bool is_first = at(sum.a).kind == Kind::constant;
    const ScalarInstruction& moved = at(is_first ? sum.a : sum.b);
    constexpr double most = 255;
    if (moved.kind != Kind::constant || moved.number != std::trunc(moved.number) || !(std::abs(moved.number) <= most))
      return std::nullopt;
    steps = {.value = is_first ? sum.b : sum.a, .zero = static_cast<int>(moved.number)};
  }
  const ScalarInstruction& rounded = at(steps.value);
  if (rounded.kind != Kind::apply || rounded.function != ScalarFunction::round || rounded.dtype != DType::f32)
    return std::nullopt;
  steps.value = rounded.a;
  return steps;
}

}  // namespace camshaft::cuda

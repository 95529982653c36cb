// Finds activations in scalar programs, however their exporters wrote them.
#pragma once

#include <functional>
#include <optional>

#include "compile/region/scalar_program.h"
#include "ir/activation.h"

namespace camshaft {

struct ActivationMatch {
  ActivationFunction function;
  int32_t result = -1;  ///< the instruction whose value is function(x)
};

/// What is looked for.
struct ActivationWanted {
  /// The value of an input that is one known f32 number.
  std::function<std::optional<float>(int32_t input)> number_of;
  /// Whether the caller has this function.
  std::function<bool(const ActivationFunction&)> takes;
  /// Steps in f16 and bf16 count as those in f32, and casts between these as nothing.
  bool narrow_types = false;
};

/// The longest part of `program` that is a wanted activation of instruction `x` and all that is made of x: nothing but
/// `result` is used by the rest. Constants are folded in double precision, so results may differ from the program's by
/// a few roundings.
std::optional<ActivationMatch> match_activation(const ScalarProgram& program, int32_t x,
                                                const ActivationWanted& wanted);

/// Which instructions are made of instruction `x`, itself included.
std::vector<bool> made_of(const ScalarProgram& program, int32_t x);
/// Whether the rest of the program has no use for what is computed from `x`, of which `of_x` tells, on the way to
/// `result`: for `result` alone.
bool is_alone(const ScalarProgram& program, const std::vector<bool>& of_x, int32_t x, int32_t result);

}  // namespace camshaft

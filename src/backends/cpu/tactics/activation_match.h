// Finds the activation behind a contraction in its epilogue, however its exporter wrote it.
#pragma once

#include <functional>
#include <optional>

#include "backends/cpu/kernels/pointwise/activation.h"
#include "compile/region/scalar_program.h"

namespace camshaft::cpu {

struct ActivationMatch {
  Activation activation;
  int32_t result = -1;  ///< the instruction whose value is activation(x)
};

/// The longest part of `program` that is an activation of instruction `x` and all that is made of x: nothing but
/// `result` is used by the rest. `number_of(input)` tells the value of an input that is one known f32 number.
/// Constants are folded in double precision, so results may differ from the program's by a few roundings.
std::optional<ActivationMatch> match_activation(const ScalarProgram& program, int32_t x,
                                                const std::function<std::optional<float>(int32_t)>& number_of);

}  // namespace camshaft::cpu

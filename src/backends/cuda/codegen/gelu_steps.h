// GELU whose results are rounded to 8 bits.
#pragma once

#include <functional>
#include <optional>

#include "backends/cuda/codegen/rounded_steps.h"

namespace camshaft::cuda {

/// Bytes, or 8-bit floats, that are GELU of an instruction's value, times `steps`, rounded and moved by `zero`: what gelu_in_steps() of
/// device/scalar.cuh computes in a third of the instructions, off by no more than moved_by_steps (compile/tactic.h).
struct GeluSteps {
  int32_t x = -1;  ///< an instruction of f32
  float steps = 1;
  int zero = 0;
  bool is_fine = false;  ///< of the two approximations
  int32_t factor = -1;   ///< a load that all is multiplied by, too, before `zero` is added; or -1
};

/// The largest magnitude of what a program's input loads; infinity where only running tells.
using MostOfInput = std::function<double(int32_t input)>;

/// nullopt where `steps` are of anything else, or so fine that the approximation is too coarse for them.
std::optional<GeluSteps> gelu_steps(const ScalarProgram& program, const RoundedSteps& steps,
                                    const MostOfInput& most_of);

}  // namespace camshaft::cuda

// A region's scalar expression: straight-line code over one output element.
//
// One representation, two executors: vector tiles on the CPU, CUDA source text on the GPU. Operands are loads of the
// region's inputs (each broadcast to the iteration shape by its strides), constants, or earlier instructions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ir/ops/scalar_function.h"

namespace camshaft {

struct ScalarInstruction {
  enum class Kind : uint8_t { load, constant, apply, cast };
  Kind kind = Kind::load;
  ScalarFunction function = ScalarFunction::add;  ///< of apply
  DType dtype = DType::f32;                       ///< of the result
  int32_t a = -1, b = -1, c = -1;  ///< earlier instructions; for load, `a` is the index of the region's input
  double number = 0;               ///< of constant, for floats and bool
  int64_t integer = 0;             ///< of constant, for integers (exact)

  bool operator==(const ScalarInstruction&) const = default;
};

struct ScalarProgram {
  int inputs = 0;                               ///< loads refer to 0 … inputs-1
  std::vector<ScalarInstruction> instructions;  ///< each refers only to earlier ones
  std::vector<int32_t> outputs;                 ///< the instruction that each output takes

  bool operator==(const ScalarProgram&) const = default;
};

/// "%2:f32 = add %0 %1" a line; for dumps and as part of a problem's text.
std::string to_string(const ScalarProgram& program);

}  // namespace camshaft

// A scalar program as a list of loops, before places are given to their values: lowering and fusion of instructions.
// Internal to TileProgram.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/pointwise/tile_kernels.h"
#include "base/dtype.h"
#include "compile/region/scalar_program.h"

namespace camshaft::cpu {

/// One value: an input as stored in memory, a constant, or the result of a loop.
struct TileNode {
  enum class Kind : uint8_t { input, constant, apply };
  Kind kind = Kind::apply;
  bool uniform = false;      ///< one element for the whole row
  DType dtype = DType::f32;  ///< as held in registers: f16 and bf16 only of inputs, and f16 of what is stored alone
  int32_t input = -1;        ///< of inputs
  uint64_t bits = 0;         ///< of constants: the element's bytes
  int operands = 0;
  int32_t in[most_operands] = {-1, -1, -1, -1, -1, -1, -1, -1};
  TileKernel kernel = nullptr;
  int cost = 1;
  // What the loop computes, for fusion: a scalar function, or a fused one. Conversions have neither.
  bool is_function = false;
  ScalarFunction function = ScalarFunction::add;
  FusedFunction fused = FusedFunction::none;
};

struct TileNodes {
  std::vector<TileNode> nodes;   ///< operands come before their users
  std::vector<int32_t> outputs;  ///< node of each output, before conversion to the type it is stored as
  std::vector<DType> stored;     ///< that type
  std::vector<DType> input_types;
};

/// Lowers the instructions that some output needs. Throws Error(unsupported) as TileProgram does.
TileNodes lower_to_nodes(const ScalarProgram& program, const std::vector<bool>& uniform_inputs);

/// Replaces groups of nodes by fused loops, and drops nodes that no output needs any more.
void fuse_nodes(TileNodes& program);

}  // namespace camshaft::cpu

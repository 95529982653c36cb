// The kernels of reductions as CUDA C++ text.
#pragma once

#include <string>
#include <vector>

#include "compile/region/scalar_program.h"
#include "ir/ops/reduce.h"

namespace camshaft::cuda {

/// Threads of a block.
constexpr unsigned reduce_threads = 512;

/// Steps before or behind a reduction.
struct ReduceSteps {
  const ScalarProgram* program = nullptr;  ///< with one output, of the reduction's type; null: none
  std::vector<DType> loads;                ///< of its inputs
  int32_t reduced = -1;                    ///< of steps behind: the input that is the reduction's result
};

/// Kernels with the parameters (Reduction, Sources, Behind, Element* out, Wide* partial), of device/reduce.cuh: "rows"
/// and "columns", one element at once; with "_vector" behind it, `vector_elements` at once; with "_split" behind that,
/// those that leave sums of splits in `partial`. "finish" (outputs, splits, count, 1 / count, partial, Behind, out)
/// merges them. Sources are the pointers to the loads of the steps before (without them: to what is reduced), Behind is
/// a Nest over the outputs of the steps behind with the loads that are not the reduction, and their pointers; or four
/// bytes where there are none.
struct ReduceText {
  std::string text;
  int vector_elements = 1;  ///< of the widest source 16 bytes, but no more than 8 elements
  int wide_bytes = 4;       ///< of a sum
};

/// Throws Error(unsupported) for a type that kernels have not.
ReduceText reduce_text(ops::ReduceKind kind, DType dtype, const ReduceSteps& before = {},
                       const ReduceSteps& behind = {});

/// "arg_reduce" (ArgReduction, in, i64* out): the indices of extremes.
std::string arg_reduce_text(const ops::ArgReduce& op, DType dtype);

}  // namespace camshaft::cuda

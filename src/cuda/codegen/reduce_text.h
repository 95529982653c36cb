// The kernels of reductions as CUDA C++ text.
#pragma once

#include <string>

#include "ops/reduce.h"

namespace camshaft::cuda {

/// Threads of a block.
constexpr unsigned reduce_threads = 512;

/// Kernels with the parameters (Reduction, const Element* in, Element* out, Wide* partial), of device/reduce.cuh:
/// "rows" and "columns", one element at once; with "_vector" behind it, `vector_elements` at once; with "_split" behind
/// that, those that leave sums of splits in `partial`. "finish" (outputs, splits, count, 1 / count, partial, out)
/// merges them.
struct ReduceText {
  std::string text;
  int vector_elements = 1;  ///< 16 bytes, but no more than 8 elements
  int wide_bytes = 4;       ///< of a sum
};

/// Throws Error(unsupported) for a type that kernels have not.
ReduceText reduce_text(ops::ReduceKind kind, DType dtype);

/// "arg_reduce" (ArgReduction, in, i64* out): the indices of extremes.
std::string arg_reduce_text(const ops::ArgReduce& op, DType dtype);

}  // namespace camshaft::cuda

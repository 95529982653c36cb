// The kernels of a pointwise region as CUDA C++ text.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "compile/region/scalar_program.h"

namespace camshaft::cuda {

/// Two kernels with the parameters (Space<operands>, inputs…, outputs…): "pointwise" takes any strides, one element a
/// thread; "pointwise_vector" takes `vector_elements` at once, and wants operands whose stride along the last dim is 1
/// or 0, aligned to that.
struct PointwiseText {
  std::string text;
  int vector_elements = 1;  ///< 16 bytes of the widest operand
};

/// Threads of a block.
constexpr unsigned pointwise_threads = 256;

/// `inputs` and `outputs`: the operands' types. Throws Error(unsupported) for one that kernels have not.
PointwiseText pointwise_text(const ScalarProgram& program, const std::vector<DType>& inputs,
                             const std::vector<DType>& outputs);

/// The kernel "fill" (Space<2>, channel stride, input, output): a thread computes the `channels` of 8 / filled pixels,
/// which lie `channel stride` apart in the input, and stores 8 elements of a type of 16 bits, with zeros behind each
/// pixel's channels up to `filled`. The space has the pixels.
std::string fill_text(const ScalarProgram& program, DType input, DType output, int64_t channels, int64_t filled);

}  // namespace camshaft::cuda

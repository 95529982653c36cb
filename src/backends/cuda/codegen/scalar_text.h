// A scalar program as CUDA C++ statements.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compile/region/scalar_program.h"

namespace camshaft::cuda {

/// Whether kernels handle elements of this type: the floats from f64 to bf16, integers of whole bytes, and booleans.
bool has_device_type(DType dtype);
/// The same, and 8-bit floats: what scalar programs read and write.
bool has_stored_type(DType dtype);
/// Its name in device/scalar.cuh: "f16".
std::string device_type(DType dtype);
/// Of the type that its elements are computed in: f32 of the narrower floats, i64 or u64 of integers.
std::string computing_type(DType dtype);

/// What all results of a program are stored in: f32 or more, or 16 bits and steps of 8.
enum class Accuracy : uint8_t { full, of_halves };

/// The statements that compute every instruction into a constant "v<number>" of the type that it is computed in (f32
/// for f16), one a line, indented by `indent`. `load(input)` gives the expression of the region's input, as an element.
/// Results that are stored in fewer bits allow functions to be approximations, and a division by a number the product
/// with its reciprocal. Throws Error(unsupported) for a type that kernels have not.
std::string scalar_statements(const ScalarProgram& program, const std::function<std::string(int32_t)>& load,
                              const std::string& indent, Accuracy accuracy = Accuracy::full);

/// The same of `count` elements at once, of number i: every instruction of all, then the next one. Compilers keep to
/// that order where registers are few, and what one element waits for hides behind the others. (GELU behind the sums of
/// blocks that stay, element by element: 138 cycles for each, of some 30 instructions.)
std::string statements_of_several(const ScalarProgram& program, const std::function<std::string(int32_t)>& load,
                                  const std::string& indent, Accuracy accuracy, int count);
/// What an instruction is called there, for element i.
std::string value_of_several(const ScalarProgram& program, int32_t instruction);

/// The instruction of f32 that output `o` is made of, where it is a cast to an 8-bit float: who stores several rounds
/// them together.
std::optional<int32_t> unrounded_float8(const ScalarProgram& program, size_t o);

/// The expression of output `o`, as an element of `dtype`.
std::string scalar_result(const ScalarProgram& program, size_t o, DType dtype);

}  // namespace camshaft::cuda

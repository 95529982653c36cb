// Every scalar function and type in generated kernels, through the compiler that they are made for.
#include "backends/cuda/codegen/pointwise_text.h"

#include <gtest/gtest.h>

#include "backends/cuda/driver/compiler.h"
#include "base/error.h"

namespace camshaft::cuda::pointwise_text_test {
namespace {

using F = ScalarFunction;
using Kind = ScalarInstruction::Kind;

constexpr DType types[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,    DType::i16,
                           DType::i8,  DType::u64, DType::u32, DType::u16,  DType::u8,  DType::boolean};

bool has(F function, DType dtype) {
  if (function == F::select) return true;
  return is_floating(dtype) ? takes_reals(function) : takes_integers(function);
}

// Every function of one type, from three inputs; and a cast of the first input to every type.
struct Everything {
  ScalarProgram program;
  std::vector<DType> inputs, outputs;

  explicit Everything(DType dtype) {
    const auto add = [&](ScalarInstruction i) {
      program.instructions.push_back(i);
      return static_cast<int32_t>(program.instructions.size()) - 1;
    };
    const auto give = [&](int32_t i) {
      program.outputs.push_back(i);
      outputs.push_back(program.instructions[static_cast<size_t>(i)].dtype);
    };
    for (int32_t k = 0; k < 3; ++k) add({.kind = Kind::load, .dtype = dtype, .a = k});
    const int32_t condition = add({.kind = Kind::apply, .function = F::less, .dtype = DType::boolean, .a = 0, .b = 1});
    add({.kind = Kind::constant, .dtype = dtype, .number = 1.5, .integer = 1});
    program.inputs = 3;
    inputs.assign(3, dtype);
    for (int f = 0; f < scalar_function_count; ++f) {
      const auto function = static_cast<F>(f);
      if (!has(function, dtype)) continue;
      ScalarInstruction i{.kind = Kind::apply, .function = function, .dtype = result_dtype(function, dtype), .a = 0};
      if (function == F::select) {
        i.a = condition;
        i.b = 1;
        i.c = 2;
      } else if (arity(function) == 2) {
        i.b = 1;
      }
      give(add(i));
    }
    for (const DType to : types) give(add({.kind = Kind::cast, .dtype = to, .a = 0}));
  }
};

TEST(PointwiseText, EveryFunctionOfEveryTypeCompiles) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  for (const DType dtype : types) {
    const Everything all(dtype);
    const PointwiseText text = pointwise_text(all.program, all.inputs, all.outputs);
    const bool all_architectures = dtype == DType::f32;  // a second of compiling each
    for (const int capability : all_architectures ? std::vector<int>{80, 90, 100} : std::vector<int>{90})
      EXPECT_FALSE(compiler.compile({std::string(to_string(dtype)), text.text, architecture(capability)}).empty());
  }
}

TEST(PointwiseText, ChunksAreOf16Bytes) {
  ScalarProgram copy;
  copy.inputs = 1;
  copy.instructions = {{.kind = Kind::load, .dtype = DType::f16, .a = 0},
                       {.kind = Kind::cast, .dtype = DType::f32, .a = 0}};
  copy.outputs = {1};
  EXPECT_EQ(pointwise_text(copy, {DType::f16}, {DType::f32}).vector_elements, 4);
  copy.outputs = {0};
  EXPECT_EQ(pointwise_text(copy, {DType::f16}, {DType::f16}).vector_elements, 8);
}

TEST(PointwiseText, TypesThatNoKernelHas) {
  ScalarProgram copy;
  copy.inputs = 1;
  copy.instructions = {{.kind = Kind::load, .dtype = DType::i4, .a = 0}};
  copy.outputs = {0};
  EXPECT_THROW(pointwise_text(copy, {DType::i4}, {DType::i4}), Error);
}

}  // namespace
}  // namespace camshaft::cuda::pointwise_text_test

// Reductions of every kind and type, through the compiler that their kernels are made for.
#include "backends/cuda/codegen/reduce_text.h"

#include <gtest/gtest.h>

#include "backends/cuda/driver/compiler.h"
#include "base/error.h"

namespace camshaft::cuda::reduce_text_test {
namespace {

TEST(ReduceText, EveryKindCompiles) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  // A second of compiling each: every kind, and every type.
  const DType types[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::i8, DType::u32};
  for (int kind = 0; kind < 7; ++kind) {
    const ReduceText text = reduce_text(static_cast<ops::ReduceKind>(kind), types[kind]);
    EXPECT_FALSE(compiler.compile({"reduce", text.text, architecture(90)}).empty()) << kind;
  }
  const ReduceText of_booleans = reduce_text(ops::ReduceKind::max, DType::boolean);
  for (const int capability : {75, 80, 100})
    EXPECT_FALSE(compiler.compile({"reduce", of_booleans.text, architecture(capability)}).empty());
}

ScalarProgram sum_of_loads(std::vector<DType> loads) {
  ScalarProgram program;
  program.inputs = static_cast<int>(loads.size());
  int32_t last = -1;
  const auto put = [&](const ScalarInstruction& i) {
    program.instructions.push_back(i);
    return static_cast<int32_t>(program.instructions.size()) - 1;
  };
  for (size_t k = 0; k < loads.size(); ++k) {
    const int32_t load = put({.dtype = loads[k], .a = static_cast<int32_t>(k)});
    const int32_t wide = put({.kind = ScalarInstruction::Kind::cast, .a = load});
    last = last < 0
               ? wide
               : put({.kind = ScalarInstruction::Kind::apply, .function = ScalarFunction::add, .a = last, .b = wide});
  }
  program.outputs = {last};
  return program;
}

TEST(ReduceText, StepsBeforeAndBehindCompile) {
  const std::vector<DType> types = {DType::f32, DType::f16, DType::boolean};
  const ScalarProgram program = sum_of_loads(types);
  const ReduceText text = reduce_text(ops::ReduceKind::mean, DType::f32, {&program, types}, {&program, types, 0});
  EXPECT_EQ(text.vector_elements, 4);
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  for (const int capability : {75, 90})
    EXPECT_FALSE(compiler.compile({"reduce", text.text, architecture(capability)}).empty());
}

TEST(ReduceText, IndicesOfExtremesCompile) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  for (const DType dtype : {DType::f16, DType::f64, DType::u8})
    EXPECT_FALSE(compiler.compile({"arg_reduce", arg_reduce_text({}, dtype), architecture(90)}).empty());
}

TEST(ReduceText, ChunksAndSums) {
  EXPECT_EQ(reduce_text(ops::ReduceKind::sum, DType::f16).vector_elements, 8);
  EXPECT_EQ(reduce_text(ops::ReduceKind::sum, DType::f64).vector_elements, 2);
  EXPECT_EQ(reduce_text(ops::ReduceKind::sum, DType::i8).vector_elements, 8);
  EXPECT_EQ(reduce_text(ops::ReduceKind::sum, DType::bf16).wide_bytes, 4);
  EXPECT_EQ(reduce_text(ops::ReduceKind::sum, DType::i8).wide_bytes, 8);
  EXPECT_THROW(reduce_text(ops::ReduceKind::sum, DType::i4), Error);
}

}  // namespace
}  // namespace camshaft::cuda::reduce_text_test

#include "compile/region/scalar_program.h"

#include <gtest/gtest.h>

namespace camshaft::scalar_program_test {
namespace {

TEST(ScalarProgram, Text) {
  using Kind = ScalarInstruction::Kind;
  ScalarProgram program;
  program.inputs = 2;
  program.instructions = {
      {Kind::load, {}, DType::f32, 1},
      {Kind::constant, {}, DType::f32, -1, -1, -1, 0.1},
      {Kind::constant, {}, DType::i64, -1, -1, -1, 0, -(int64_t{1} << 62) - 1},
      {Kind::apply, ScalarFunction::add, DType::f32, 0, 1},
      {Kind::cast, {}, DType::f16, 3},
      {Kind::apply, ScalarFunction::less, DType::boolean, 0, 3},
      {Kind::apply, ScalarFunction::select, DType::f32, 5, 0, 3},
  };
  program.outputs = {6, 4};
  EXPECT_EQ(to_string(program),
            "%0:f32 = load 1\n"
            "%1:f32 = constant 0.1\n"
            "%2:i64 = constant -4611686018427387905\n"
            "%3:f32 = add %0 %1\n"
            "%4:f16 = cast %3\n"
            "%5:bool = less %0 %3\n"
            "%6:f32 = select %5 %0 %3\n"
            "return %6 %4\n");
}

}  // namespace
}  // namespace camshaft::scalar_program_test

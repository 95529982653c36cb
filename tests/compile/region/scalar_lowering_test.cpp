// Pointwise sub-graphs as straight-line programs.
#include "compile/region/scalar_lowering.h"

#include <gtest/gtest.h>

#include "ir/ops/operators.h"
#include "ir/text.h"

namespace camshaft::scalar_lowering_test {
namespace {

LoweredProgram lowered(const std::string& text, size_t first = 0) {
  auto program = lower_scalar_program(parse_graph(text, operators()), first);
  EXPECT_TRUE(program);
  return program ? std::move(*program) : LoweredProgram{};
}

TEST(ScalarLowering, SharedLoadsAndConstants) {
  const LoweredProgram p = lowered(R"(graph (%x: f32[n, 4], %b: f32[4]) {
    const %half: f32[1] = 0.5
    const %table: f32[4] = [1, 2, 3, 4]
    %a = pointwise {function=mul} (%x, %half)
    %c = pointwise {function=add} (%a, %x)
    %d = pointwise {function=max} (%c, %b)
    %e = pointwise {function=min} (%d, %table)
    return %e, %a, %x
  })");
  EXPECT_EQ(to_string(p.program),
            "%0:f32 = load 0\n"
            "%1:f32 = constant 0.5\n"
            "%2:f32 = mul %0 %1\n"
            "%3:f32 = add %2 %0\n"
            "%4:f32 = load 1\n"
            "%5:f32 = max %3 %4\n"
            "%6:f32 = load 2\n"
            "%7:f32 = min %5 %6\n"
            "return %7 %2 %0\n");
  EXPECT_EQ(p.program.inputs, 3);
  EXPECT_EQ(p.loads, (std::vector<ValueId>{0, 1, 3}));
  EXPECT_EQ(p.results.size(), 3u);
}

TEST(ScalarLowering, CastsSelectsAndExactIntegers) {
  const LoweredProgram p = lowered(R"(graph (%x: i64[n]) {
    const %big: i64[] = 9007199254740993
    %m = pointwise {function=less} (%x, %big)
    %f = cast {to=f32} (%x)
    const %one: f32[] = 1
    %s = pointwise {function=select} (%m, %f, %one)
    return %s
  })");
  EXPECT_EQ(to_string(p.program),
            "%0:i64 = load 0\n"
            "%1:i64 = constant 9007199254740993\n"
            "%2:bool = less %0 %1\n"
            "%3:f32 = cast %0\n"
            "%4:f32 = constant 1\n"
            "%5:f32 = select %2 %3 %4\n"
            "return %5\n");
}

TEST(ScalarLowering, BehindAnotherNode) {
  const std::string text = R"(graph (%a: f32[m, k], %b: f32[k, n], %r: f32[m, n]) {
    %y = matmul (%a, %b)
    %z = pointwise {function=add} (%y, %r)
    return %z
  })";
  const LoweredProgram p = lowered(text, 1);
  EXPECT_EQ(p.loads, (std::vector<ValueId>{3, 2})) << "the product, then the residual";
  EXPECT_FALSE(lower_scalar_program(parse_graph(text, operators()), 0)) << "a matmul is not scalar";
}

TEST(ScalarLowering, LargeUnsignedConstantsStayTensors) {
  const LoweredProgram p = lowered(R"(graph (%x: u64[n]) {
    const %big: u64[] = 18446744073709551615
    %y = pointwise {function=add} (%x, %big)
    return %y
  })");
  EXPECT_EQ(p.loads.size(), 2u) << "an instruction's integer could not hold it";
}

}  // namespace
}  // namespace camshaft::scalar_lowering_test

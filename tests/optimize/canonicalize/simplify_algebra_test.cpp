#include "optimize/canonicalize/simplify_algebra.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "optimize/pass_test.h"
#include "reference/evaluate.h"

namespace camshaft::simplify_algebra_test {
namespace {

void expect_identity(const std::string& function, const std::string& constant, bool constant_left = false) {
  expect_pass(simplify_algebra,
              "const %c: f32[] = " + constant + "\n%a = pointwise {function=" + function + "} " +
                  (constant_left ? "(%c, %x)" : "(%x, %c)") + "\n%y = pointwise {function=exp} (%a)\nreturn %y",
              "%y = pointwise {function=exp} (%x)\nreturn %y");
}

TEST(SimplifyAlgebra, NeutralElements) {
  expect_identity("add", "-0.0");
  expect_identity("add", "-0.0", true);
  expect_identity("sub", "0");
  expect_identity("mul", "1");
  expect_identity("mul", "1", true);
  expect_identity("div", "1");
  expect_identity("pow", "1");
  expect_identity("max", "-inf", true);
  expect_identity("min", "inf");
}

TEST(SimplifyAlgebra, ZeroTakesTheSignOfZeroAway) {
  expect_unchanged(simplify_algebra, "const %c: f32[] = 0\n%a = pointwise {function=add} (%x, %c)\nreturn %a");
  expect_unchanged(simplify_algebra, "const %c: f32[] = -0.0\n%a = pointwise {function=sub} (%x, %c)\nreturn %a");
  expect_pass(simplify_algebra, "const %c: i32[] = 0\n%a = pointwise {function=add} (%x, %c)\nreturn \"y\" = %a",
              "return \"y\" = %x", "%x: i32[2, 3]");
}

TEST(SimplifyAlgebra, SumsThatAreNeverMinusZeroTakeNoZero) {
  const auto text = [](const std::string& term, const std::string& sum) {
    return "const %c: f32[] = 0\nconst %t: f32[] = " + term + "\n%s = pointwise {function=add} (%x, %t)\n" + sum;
  };
  const std::string adds_zero = "%y = pointwise {function=add} (%s, %c)\nreturn \"y\" = %y";
  expect_pass(simplify_algebra, text("2", adds_zero),
              "const %t: f32[] = 2\n%s = pointwise {function=add} (%x, %t)\nreturn \"y\" = %s");
  expect_unchanged(simplify_algebra,
                   "const %c: f32[] = 0\n%a = pointwise {function=abs} (%x)\n"
                   "%s = pointwise {function=neg} (%a)\n" +
                       adds_zero);
}

// What the pass leaves of a power of x, on numbers of all kinds.
TEST(SimplifyAlgebra, SquareRootsOfSignedNumbers) {
  const Graph before = parse_graph(R"(graph "g" (%x: f32[6]) {
                                        const %half: f32[] = 0.5
                                        %y = pointwise {function=pow} (%x, %half)
                                        return %y
                                      })",
                                   operators());
  Graph after = before;
  simplify_algebra(after, test_context());
  EXPECT_FALSE(equal(before, after));
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Tensor x(DType::f32, {6});
  const float numbers[] = {-infinity, -0.0f, 0.0f, 4.0f, -1.0f, infinity};
  std::copy(std::begin(numbers), std::end(numbers), x.as_mutable<float>());
  const Tensor wanted = evaluate(before, {x}, test_pool())[0], got = evaluate(after, {x}, test_pool())[0];
  for (size_t i = 0; i < 6; ++i) {
    const float w = wanted.as<float>()[i], g = got.as<float>()[i];
    EXPECT_TRUE(std::isnan(w) ? std::isnan(g) : w == g && std::signbit(w) == std::signbit(g)) << numbers[i];
  }
}

TEST(SimplifyAlgebra, InverseRoots) {
  expect_pass(simplify_algebra,
              R"(const %power: f32[] = -0.5
                 %s = pointwise {function=mul} (%x, %x)
                 %d = pointwise {function=pow} (%s, %power)
                 return "y" = %d)",
              R"(%s = pointwise {function=mul} (%x, %x)
                 %r = pointwise {function=sqrt} (%s)
                 %d = pointwise {function=reciprocal} (%r)
                 return "y" = %d)");
  // Of -infinity the power is 0.
  expect_unchanged(simplify_algebra, R"(const %power: f32[] = -0.5
                                        %d = pointwise {function=pow} (%x, %power)
                                        return %d)");
}

TEST(SimplifyAlgebra, SquareRootOfAVariance) {
  expect_pass(simplify_algebra,
              R"(const %half: f32[] = 0.5
                 const %small: f32[] = 1e-5
                 %s = pointwise {function=mul} (%x, %x)
                 %m = reduce {kind=mean, axes=[1]} (%s)
                 %r = reshape {shape=shape(2, 1)} (%m)
                 %v = pointwise {function=add} (%r, %small)
                 %d = pointwise {function=pow} (%v, %half)
                 return %d)",
              R"(const %small: f32[] = 1e-5
                 %s = pointwise {function=mul} (%x, %x)
                 %m = reduce {kind=mean, axes=[1]} (%s)
                 %r = reshape {shape=shape(2, 1)} (%m)
                 %v = pointwise {function=add} (%r, %small)
                 %d = pointwise {function=sqrt} (%v)
                 return %d)");
}

TEST(SimplifyAlgebra, FactorsThatLeaveTheRangeAreNotMerged) {
  for (const auto& [first, second] : {std::pair("1e30", "1e-30"), std::pair("1e-30", "1e30"), std::pair("4", "0.5")})
    expect_unchanged(simplify_algebra, std::string("const %c: f32[] = ") + first + "\nconst %d: f32[] = " + second +
                                           "\n%a = pointwise {function=mul} (%x, %c)" +
                                           "\n%b = pointwise {function=mul} (%a, %d)\nreturn %b");
}

TEST(SimplifyAlgebra, NeutralOnOneSideOnly) {
  for (const char* function : {"sub", "div"})
    expect_unchanged(simplify_algebra, std::string("const %c: f32[] = ") +
                                           (std::string(function) == "sub" ? "0" : "1") +
                                           "\n%a = pointwise {function=" + function + "} (%c, %x)\nreturn %a");
  // The constant makes the result larger than x.
  expect_unchanged(simplify_algebra, R"(const %c: f32[4, 2, 3] = 0
                                        %a = pointwise {function=add} (%x, %c)
                                        return %a)");
}

TEST(SimplifyAlgebra, CheaperFunctions) {
  expect_pass(simplify_algebra,
              R"(const %eight: f32[] = 8
                 const %two: f32[] = 2
                 const %half: f32[] = 0.5
                 const %three: f32[] = 3
                 %a = pointwise {function=div} (%x, %eight)
                 %b = pointwise {function=pow} (%a, %two)
                 %c = pointwise {function=pow} (%b, %half)
                 %d = pointwise {function=div} (%c, %three)
                 %e = pointwise {function=pow} (%d, %three)
                 return %e)",
              R"(const %eighth: f32[] = 0.125
                 const %three: f32[] = 3
                 %a = pointwise {function=mul} (%x, %eighth)
                 %b = pointwise {function=mul} (%a, %a)
                 %c = pointwise {function=sqrt} (%b)
                 %d = pointwise {function=div} (%c, %three)
                 %s = pointwise {function=mul} (%d, %d)
                 %e = pointwise {function=mul} (%s, %d)
                 return "e" = %e)");
}

TEST(SimplifyAlgebra, Chains) {
  expect_pass(simplify_algebra,
              R"(const %zero: f32[] = 0
                 const %one: f32[] = 1
                 const %three: f32[] = 3
                 const %four: f32[1] = 4
                 %n = pointwise {function=neg} (%x)
                 %m = pointwise {function=neg} (%n)
                 %a = pointwise {function=max} (%m, %zero)
                 %b = pointwise {function=max} (%one, %a)
                 %c = pointwise {function=max} (%b, %zero)
                 %d = pointwise {function=mul} (%three, %c)
                 %e = pointwise {function=mul} (%d, %four)
                 return %e)",
              R"(const %one: f32[] = 1
                 const %twelve: f32[] = 12
                 %b = pointwise {function=max} (%x, %one)
                 %e = pointwise {function=mul} (%b, %twelve)
                 return "e" = %e)");
}

TEST(SimplifyAlgebra, CastsThatLoseNothing) {
  expect_pass(simplify_algebra,
              R"(%a = cast {to=f32} (%x)
                 %b = cast {to=f16} (%a)
                 %c = cast {to=f64} (%a)
                 return "b" = %b, "c" = %c)",
              R"(%c = cast {to=f64} (%x)
                 return "b" = %x, "c" = %c)",
              "%x: f16[2, 3]");
  expect_unchanged(simplify_algebra, R"(%a = cast {to=f16} (%x)
                                        %b = cast {to=f32} (%a)
                                        return %b)");
  expect_unchanged(simplify_algebra, R"(%a = cast {to=i32} (%x)
                                        %b = cast {to=f32} (%a)
                                        return %b)");
}

// -1 of i8 is 255 of u8, and -1.0 is not; of i32 it is -1 all the same.
TEST(SimplifyAlgebra, CastsOfIntegersThroughFloats) {
  const auto through = [](const std::string& wide, const std::string& to) {
    return "%a = cast {to=" + wide + "} (%x)\n%b = cast {to=" + to + "} (%a)\nreturn \"b\" = %b";
  };
  const auto directly = [](const std::string& to) { return "%b = cast {to=" + to + "} (%x)\nreturn \"b\" = %b"; };
  expect_unchanged(simplify_algebra, through("f32", "u8"), "%x: i8[2, 3]");
  expect_unchanged(simplify_algebra, through("f64", "u64"), "%x: i8[2, 3]");
  expect_unchanged(simplify_algebra, through("f32", "i8"), "%x: i16[2, 3]");
  expect_pass(simplify_algebra, through("f32", "i32"), directly("i32"), "%x: i8[2, 3]");
  expect_pass(simplify_algebra, through("i32", "u8"), directly("u8"), "%x: i8[2, 3]");
  expect_pass(simplify_algebra, through("f32", "bool"), directly("bool"), "%x: i8[2, 3]");
}

TEST(SimplifyAlgebra, CastsThatShowHowWideTheyWere) {
  // 0.1 of f32 is 0.10000000149011612 of f64, and false is no power of two.
  expect_unchanged(simplify_algebra, "%a = cast {to=f64} (%x)\n%b = cast {to=string} (%a)\nreturn %b");
  expect_unchanged(simplify_algebra, "%a = cast {to=f8e8m0} (%x)\n%b = cast {to=f32} (%a)\nreturn %b",
                   "%x: bool[2, 3]");
}

TEST(SimplifyAlgebra, SelectByAConstant) {
  expect_pass(simplify_algebra,
              R"(const %no: bool[2, 3] = false
                 const %z: f32[] = 0
                 %e = pointwise {function=exp} (%x)
                 %y = pointwise {function=select} (%no, %z, %e)
                 return %y)",
              R"(%e = pointwise {function=exp} (%x)
                 return "y" = %e)");
}

}  // namespace
}  // namespace camshaft::simplify_algebra_test

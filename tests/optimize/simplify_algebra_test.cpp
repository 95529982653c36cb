#include "optimize/simplify_algebra.h"

#include "optimize/pass_test.h"

namespace camshaft {
namespace {

void expect_identity(const std::string& function, const std::string& constant, bool constant_left = false) {
  expect_pass(simplify_algebra,
              "const %c: f32[] = " + constant + "\n%a = pointwise {function=" + function + "} " +
                  (constant_left ? "(%c, %x)" : "(%x, %c)") + "\n%y = pointwise {function=exp} (%a)\nreturn %y",
              "%y = pointwise {function=exp} (%x)\nreturn %y");
}

TEST(SimplifyAlgebra, NeutralElements) {
  expect_identity("add", "0");
  expect_identity("add", "0", true);
  expect_identity("sub", "0");
  expect_identity("mul", "1");
  expect_identity("mul", "1", true);
  expect_identity("div", "1");
  expect_identity("pow", "1");
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
}  // namespace camshaft

#include "optimize/canonicalize/eliminate_common_subexpressions.h"

#include "optimize/pass_test.h"

namespace camshaft::eliminate_common_subexpressions_test {
namespace {

TEST(EliminateCommonSubexpressions, EqualNodesAndConstants) {
  expect_pass(eliminate_common_subexpressions,
              R"(const %a: f32[3] = [1, 2, 3]
                 const %b: f32[3] = [1, 2, 3]
                 %p = pointwise {function=add} (%x, %a)
                 %q = pointwise {function=add} (%b, %x)
                 %r = pointwise {function=exp} (%p)
                 %s = pointwise {function=exp} (%q)
                 %y = pointwise {function=sub} (%r, %s)
                 return "y" = %y, "z" = %s)",
              R"(const %a: f32[3] = [1, 2, 3]
                 %p = pointwise {function=add} (%x, %a)
                 %r = pointwise {function=exp} (%p)
                 %y = pointwise {function=sub} (%r, %r)
                 return "y" = %y, "z" = %r)");
}

TEST(EliminateCommonSubexpressions, DifferencesCount) {
  expect_unchanged(eliminate_common_subexpressions,
                   R"(const %a: f32[3] = [1, 2, 3]
                      const %b: f32[1, 3] = [1, 2, 3]
                      const %c: f32[3] = [1, 2, 4]
                      %p = pointwise {function=sub} (%x, %a)
                      %q = pointwise {function=sub} (%a, %x)
                      %r = pointwise {function=sub} (%x, %c)
                      %s = pointwise {function=sub} (%x, %b)
                      %t = reduce {kind=sum, axes=[1]} (%x)
                      %u = reduce {kind=max, axes=[1]} (%x)
                      return %p, %q, %r, %s, %t, %u)");
}

TEST(EliminateCommonSubexpressions, RandomTensorsOfOneSeedAreEqual) {
  expect_pass(eliminate_common_subexpressions,
              R"(%p = random {shape=shape(2, 3), seed=1} ()
                 %q = random {shape=shape(2, 3), seed=1} ()
                 %r = random {shape=shape(2, 3), seed=2} ()
                 return "p" = %p, "q" = %q, "r" = %r)",
              R"(%p = random {shape=shape(2, 3), seed=1} ()
                 %r = random {shape=shape(2, 3), seed=2} ()
                 return "p" = %p, "q" = %p, "r" = %r)");
}

}  // namespace
}  // namespace camshaft::eliminate_common_subexpressions_test

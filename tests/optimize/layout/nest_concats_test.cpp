#include "optimize/layout/nest_concats.h"

#include "optimize/pass_test.h"

namespace camshaft::nest_concats_test {
namespace {

TEST(NestConcats, DenseBlock) {
  expect_pass(nest_concats, R"(%p = concat {axis=1} (%a, %b)
                               %q = concat {axis=1} (%a, %b, %c)
                               %r = concat {axis=1} (%a, %b, %c, %a)
                               return %p, %q, %r)",
              R"(%p = concat {axis=1} (%a, %b)
                 %q = concat {axis=1} (%p, %c)
                 %r = concat {axis=1} (%q, %a)
                 return %p, %q, %r)",
              "%a: f32[n, 2, 5], %b: f32[n, 3, 5], %c: f32[n, 4, 5]");
}

TEST(NestConcats, OtherAxesAndOtherOrders) {
  expect_unchanged(nest_concats, R"(%p = concat {axis=1} (%a, %b)
                                    %q = concat {axis=0} (%a, %b, %a)
                                    %r = concat {axis=1} (%b, %a, %a)
                                    %s = concat {axis=1} (%a, %b)
                                    return %p, %q, %r, %s)",
                   "%a: f32[3, 3], %b: f32[3, 3]");
}

}  // namespace
}  // namespace camshaft::nest_concats_test

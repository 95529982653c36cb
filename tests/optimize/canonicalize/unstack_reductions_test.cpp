#include "optimize/canonicalize/unstack_reductions.h"

#include "optimize/pass_test.h"

namespace camshaft::unstack_reductions_test {
namespace {

const std::string inputs = "%a: f32[n, 1, 5, 4], %b: f32[n, 1, 5, 4], %weights: f32[n, 2, 5, 1]";

// The axis is gone, and so is the reshape that put it in.
TEST(UnstackReductions, SelectiveKernels) {
  expect_pass(unstack_reductions, R"(%a1 = reshape {shape=shape(n, 1, 5, 4), allow_zero=false} (%a)
                                     %stack = concat {axis=1} (%a1, %b)
                                     %sum = reduce {kind=sum, axes=[1], keep_dims=false} (%stack)
                                     %weighted = pointwise {function=mul} (%stack, %weights)
                                     %chosen = reduce {kind=sum, axes=[1], keep_dims=true} (%weighted)
                                     return %sum, %chosen)",
              R"(%b0 = reshape {shape=shape(n, 5, 4), allow_zero=false} (%b)
                 %sum = pointwise {function=add} (%a, %b0)
                 %s0 = slice {axes=[1], starts=shape(0), counts=shape(1), steps=[1]} (%weights)
                 %w0 = reshape {shape=shape(n, 5, 1), allow_zero=false} (%s0)
                 %p0 = pointwise {function=mul} (%a, %w0)
                 %b1 = reshape {shape=shape(n, 5, 4), allow_zero=false} (%b)
                 %s1 = slice {axes=[1], starts=shape(1), counts=shape(1), steps=[1]} (%weights)
                 %w1 = reshape {shape=shape(n, 5, 1), allow_zero=false} (%s1)
                 %p1 = pointwise {function=mul} (%b1, %w1)
                 %c = pointwise {function=add} (%p0, %p1)
                 %chosen = reshape {shape=shape(n, 1, 5, 4), allow_zero=false} (%c)
                 return %sum, %chosen)",
              "%a: f32[n, 5, 4], %b: f32[n, 1, 5, 4], %weights: f32[n, 2, 5, 1]");
}

// A mean of three, an operand without the axis and a number, and the axis last in the shape.
TEST(UnstackReductions, MeansAndOperandsWithoutTheAxis) {
  expect_pass(unstack_reductions, R"(const %two: f32[] = 2
                                     %a1 = reshape {shape=shape(2, n, 1), allow_zero=false} (%a)
                                     %b1 = reshape {shape=shape(2, n, 1), allow_zero=false} (%b)
                                     %stack = concat {axis=2} (%a1, %a1, %b1)
                                     %scaled = pointwise {function=mul} (%stack, %two)
                                     %shifted = pointwise {function=add} (%shift, %scaled)
                                     %mean = reduce {kind=mean, axes=[2], keep_dims=false} (%shifted)
                                     return %mean)",
              R"(const %two: f32[] = 2
                 const %three: f32[] = 3
                 %f0 = reshape {shape=shape(n), allow_zero=false} (%shift)
                 %m0 = pointwise {function=mul} (%a, %two)
                 %s0 = pointwise {function=add} (%f0, %m0)
                 %f1 = reshape {shape=shape(n), allow_zero=false} (%shift)
                 %m1 = pointwise {function=mul} (%a, %two)
                 %s1 = pointwise {function=add} (%f1, %m1)
                 %t0 = pointwise {function=add} (%s0, %s1)
                 %f2 = reshape {shape=shape(n), allow_zero=false} (%shift)
                 %m2 = pointwise {function=mul} (%b, %two)
                 %s2 = pointwise {function=add} (%f2, %m2)
                 %t1 = pointwise {function=add} (%t0, %s2)
                 %mean = pointwise {function=div} (%t1, %three)
                 return %mean)",
              "%a: f32[2, n], %b: f32[2, n], %shift: f32[n, 1]");
}

TEST(UnstackReductions, LeavesOtherSums) {
  // Another axis, parts of more than one index, and more of them.
  expect_unchanged(unstack_reductions, R"(%stack = concat {axis=1} (%a, %b)
                                          %sum = reduce {kind=sum, axes=[2], keep_dims=false} (%stack)
                                          %wide = concat {axis=1} (%weights, %weights)
                                          %other = reduce {kind=sum, axes=[1], keep_dims=false} (%wide)
                                          %five = concat {axis=1} (%a, %b, %a, %b, %a)
                                          %many = reduce {kind=sum, axes=[1], keep_dims=false} (%five)
                                          %highest = reduce {kind=max, axes=[1], keep_dims=false} (%stack)
                                          return %sum, %other, %many, %highest)",
                   inputs);
  // An operand as large as the stack would be cut up for it, and what others read is computed anyway.
  expect_unchanged(unstack_reductions, R"(%stack = concat {axis=1} (%a, %b)
                                          %product = pointwise {function=mul} (%stack, %x)
                                          %sum = reduce {kind=sum, axes=[1], keep_dims=false} (%product)
                                          %again = pointwise {function=exp} (%stack)
                                          %total = reduce {kind=sum, axes=[1], keep_dims=false} (%again)
                                          return %sum, %total, %again)",
                   "%a: f32[n, 1, 5, 4], %b: f32[n, 1, 5, 4], %x: f32[n, 2, 5, 4]");
}

}  // namespace
}  // namespace camshaft::unstack_reductions_test

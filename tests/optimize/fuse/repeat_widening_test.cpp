#include "optimize/fuse/repeat_widening.h"

#include "optimize/pass_test.h"

namespace camshaft::repeat_widening_test {
namespace {

// Squeeze and excite: the mean and the product with its gates read the same real numbers.
TEST(RepeatWidening, AReductionGetsItsOwn) {
  expect_pass(repeat_widening,
              R"(const %zero: f32[] = 3
                 const %scale: f32[] = 0.5
                 %f = cast {to=f32} (%x)
                 %m = pointwise {function=sub} (%f, %zero)
                 %r = pointwise {function=mul} (%m, %scale)
                 %mean = reduce {kind=mean, axes=[1]} (%r)
                 %y = pointwise {function=mul} (%r, %mean)
                 return "y" = %y)",
              R"(const %zero: f32[] = 3
                 const %scale: f32[] = 0.5
                 %f = cast {to=f32} (%x)
                 %m = pointwise {function=sub} (%f, %zero)
                 %r = pointwise {function=mul} (%m, %scale)
                 %f2 = cast {to=f32} (%x)
                 %m2 = pointwise {function=sub} (%f2, %zero)
                 %r2 = pointwise {function=mul} (%m2, %scale)
                 %mean = reduce {kind=mean, axes=[1]} (%r2)
                 %y = pointwise {function=mul} (%r, %mean)
                 return "y" = %y)",
              "%x: u8[n, 4]");
}

// A residual: what is added further on, and an activation that ends as steps of 8 bits before.
TEST(RepeatWidening, StepsThatDoNotMeetGetTheirOwn) {
  expect_pass(repeat_widening,
              R"(const %scale: f32[] = 0.5
                 %f = cast {to=f32} (%x)
                 %r = pointwise {function=mul} (%f, %scale)
                 %a = pointwise {function=tanh} (%r)
                 %q = cast {to=u8} (%a)
                 %c = reduce {kind=sum, axes=[1]} (%q)
                 %s = pointwise {function=add} (%r, %z)
                 %t = pointwise {function=exp} (%r)
                 %y = pointwise {function=mul} (%s, %t)
                 return "y" = %y, "c" = %c)",
              R"(const %scale: f32[] = 0.5
                 %f = cast {to=f32} (%x)
                 %r = pointwise {function=mul} (%f, %scale)
                 %a = pointwise {function=tanh} (%r)
                 %q = cast {to=u8} (%a)
                 %c = reduce {kind=sum, axes=[1]} (%q)
                 %f2 = cast {to=f32} (%x)
                 %r2 = pointwise {function=mul} (%f2, %scale)
                 %s = pointwise {function=add} (%r2, %z)
                 %t = pointwise {function=exp} (%r2)
                 %y = pointwise {function=mul} (%s, %t)
                 return "y" = %y, "c" = %c)",
              "%x: u8[n, 4], %z: f32[n, 4]");
}

TEST(RepeatWidening, OthersShare) {
  const auto stays = [](const std::string& body, const std::string& inputs) {
    expect_pass(repeat_widening, body, body, inputs);
  };
  stays(R"(%f = cast {to=f32} (%x)
           %mean = reduce {kind=mean, axes=[1]} (%f)
           return "y" = %mean)",
        "%x: u8[n, 4]");  // one reader
  stays(R"(%f = cast {to=f32} (%x)
           %a = pointwise {function=exp} (%f)
           %y = pointwise {function=mul} (%f, %a)
           return "y" = %y)",
        "%x: u8[n, 4]");  // they meet
  stays(R"(%f = cast {to=f32} (%x)
           %a = pointwise {function=exp} (%f)
           %b = pointwise {function=tanh} (%f)
           %p = matmul (%f, %z)
           return "a" = %a, "b" = %b, "p" = %p)",
        "%x: u8[n, 4], %z: f32[4, 4]");  // a product needs it
  stays(R"(%f = cast {to=f32} (%x)
           %a = pointwise {function=exp} (%f)
           %b = pointwise {function=tanh} (%f)
           return "a" = %a, "b" = %b, "f" = %f)",
        "%x: u8[n, 4]");  // it is a result
  stays(R"(%f = pointwise {function=mul} (%x, %z)
           %mean = reduce {kind=mean, axes=[1]} (%f)
           %y = pointwise {function=mul} (%f, %mean)
           return "y" = %y)",
        "%x: f32[n, 4], %z: f32[n, 4]");  // not of 8 bits
  stays(R"(%f = cast {to=f32} (%x)
           %g = pointwise {function=mul} (%f, %z)
           %mean = reduce {kind=mean, axes=[1]} (%g)
           %y = pointwise {function=mul} (%g, %mean)
           return "y" = %y)",
        "%x: u8[n, 4], %z: f32[n, 4]");  // of two tensors
}

}  // namespace
}  // namespace camshaft::repeat_widening_test

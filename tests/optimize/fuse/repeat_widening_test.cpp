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
        "%x: u8[n, 4]");  // no reduction
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

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

// What is activated for a layer, and added behind it.
TEST(RepeatResidualWidening, ResidualsGetTheirOwn) {
  const std::string inputs = "%x: u8[n, 4], %w: i8[4, 4]";
  expect_pass(repeat_residual_widening,
              R"(const %scale: f32[] = 0.5
                 %f = cast {to=f32} (%x)
                 %r = pointwise {function=mul} (%f, %scale)
                 %a = pointwise {function=tanh} (%r)
                 %q = cast {to=u8} (%a)
                 %c = integer_matmul (%q, %w)
                 %g = cast {to=f32} (%c)
                 %s = pointwise {function=add} (%g, %r)
                 return "y" = %s)",
              R"(const %scale: f32[] = 0.5
                 %f = cast {to=f32} (%x)
                 %r = pointwise {function=mul} (%f, %scale)
                 %a = pointwise {function=tanh} (%r)
                 %q = cast {to=u8} (%a)
                 %c = integer_matmul (%q, %w)
                 %g = cast {to=f32} (%c)
                 %f2 = cast {to=f32} (%x)
                 %r2 = pointwise {function=mul} (%f2, %scale)
                 %s = pointwise {function=add} (%g, %r2)
                 return "y" = %s)",
              inputs);
}

TEST(RepeatResidualWidening, OthersShare) {
  const auto stays = [](const std::string& body, const std::string& inputs) {
    expect_pass(repeat_residual_widening, body, body, inputs);
  };
  stays(R"(%f = cast {to=f32} (%x)
           %a = pointwise {function=tanh} (%f)
           %q = cast {to=u8} (%a)
           %s = pointwise {function=add} (%f, %z)
           return "q" = %q, "y" = %s)",
        "%x: u8[n, 4], %z: f32[n, 4]");  // behind no product
  const std::string of_bytes = "%x: u8[n, 4], %w: i8[4, 4], %v: f32[4, 4]";
  stays(R"(%f = cast {to=f32} (%x)
           %p = matmul (%f, %v)
           %c = integer_matmul (%x, %w)
           %g = cast {to=f32} (%c)
           %s = pointwise {function=add} (%g, %f)
           return "p" = %p, "y" = %s)",
        of_bytes);  // a product needs it
  stays(R"(%f = cast {to=f32} (%x)
           %a = pointwise {function=tanh} (%f)
           %c = integer_matmul (%x, %w)
           %g = cast {to=f32} (%c)
           %s = pointwise {function=add} (%g, %f)
           return "a" = %a, "f" = %f, "y" = %s)",
        of_bytes);  // it is a result
  stays(R"(%f = cast {to=f32} (%x)
           %e = pointwise {function=exp} (%f)
           %a = pointwise {function=tanh} (%e)
           %b = pointwise {function=sqrt} (%e)
           %c = integer_matmul (%x, %w)
           %g = cast {to=f32} (%c)
           %s = pointwise {function=add} (%g, %e)
           return "a" = %a, "b" = %b, "y" = %s)",
        of_bytes);  // more than a Dequantize
  stays(R"(%f = cast {to=f32} (%m)
           %a = pointwise {function=add} (%f, %z)
           %c = integer_matmul (%x, %w)
           %g = cast {to=f32} (%c)
           %s = pointwise {function=add} (%g, %f)
           return "a" = %a, "y" = %s)",
        "%x: u8[5, 4], %w: i8[4, 4], %m: u8[1, 4], %z: f32[5, 4]");  // repeated along an axis: of no other's shape
}

}  // namespace
}  // namespace camshaft::repeat_widening_test

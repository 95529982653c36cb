#include "optimize/recognize_layer_norm.h"

#include "optimize/pass_test.h"

namespace camshaft {
namespace {

const std::string input = "%x: f32[n, 5, 4]";

TEST(RecognizeLayerNorm, AsOldExportersSpellIt) {
  expect_pass(recognize_layer_norm,
              R"(const %epsilon: f32[1] = 0.5
                 const %scale: f32[4] = [1, 2, 3, 4]
                 const %shift: f32[1, 4] = [5, 6, 7, 8]
                 %m = reduce {kind=mean, axes=[2]} (%x)
                 %d = pointwise {function=sub} (%x, %m)
                 %s = pointwise {function=mul} (%d, %d)
                 %v = reduce {kind=mean, axes=[2]} (%s)
                 %e = pointwise {function=add} (%v, %epsilon)
                 %r = pointwise {function=sqrt} (%e)
                 %y = pointwise {function=div} (%d, %r)
                 %z = pointwise {function=mul} (%y, %scale)
                 %w = pointwise {function=add} (%shift, %z)
                 return "w" = %w)",
              R"(const %scale: f32[4] = [1, 2, 3, 4]
                 const %shift: f32[4] = [5, 6, 7, 8]
                 %w = layer_norm {axis=2, epsilon=0.5} (%x, %scale, %shift)
                 return "w" = %w)",
              input);
}

// TensorFlow's, in other orders of operands, without a scale, and of what is no norm.
TEST(RecognizeLayerNorm, MultipliedOut) {
  const std::string head = R"(const %epsilon: f32[] = 0.5
                 const %scale: f32[4] = [1, 2, 3, 4]
                 const %shift: f32[4] = [5, 6, 7, 8]
                 %m = reduce {kind=mean, axes=[2]} (%x)
                 %d = pointwise {function=sub} (%x, %m)
                 %s = pointwise {function=mul} (%d, %d)
                 %v = reduce {kind=mean, axes=[2]} (%s)
                 %e = pointwise {function=add} (%v, %epsilon)
                 %r = pointwise {function=sqrt} (%e)
                 %i = pointwise {function=reciprocal} (%r)
                 )";
  const std::string first = R"(%g = pointwise {function=mul} (%i, %scale)
                 %y = pointwise {function=mul} (%x, %g)
                 %c = pointwise {function=mul} (%m, %g)
                 %o = pointwise {function=sub} (%shift, %c)
                 %w = pointwise {function=add} (%y, %o)
                 return "w" = %w)";
  const std::string second = R"(%g = pointwise {function=mul} (%scale, %i)
                 %y = pointwise {function=mul} (%g, %x)
                 %c = pointwise {function=mul} (%g, %m)
                 %o = pointwise {function=sub} (%shift, %c)
                 %w = pointwise {function=add} (%o, %y)
                 return "w" = %w)";
  for (const std::string& tail : {first, second})
    expect_pass(recognize_layer_norm, head + tail, R"(const %scale: f32[4] = [1, 2, 3, 4]
                 const %shift: f32[4] = [5, 6, 7, 8]
                 %w = layer_norm {axis=2, epsilon=0.5} (%x, %scale, %shift)
                 return "w" = %w)",
                input);
  expect_pass(recognize_layer_norm, head + R"(%y = pointwise {function=mul} (%x, %i)
                 %c = pointwise {function=mul} (%m, %i)
                 %o = pointwise {function=sub} (%shift, %c)
                 %w = pointwise {function=add} (%y, %o)
                 return "w" = %w)",
              R"(const %shift: f32[4] = [5, 6, 7, 8]
                 %w = layer_norm {axis=2, epsilon=0.5} (%x, -, %shift)
                 return "w" = %w)",
              input);
  // Another factor, another value's mean, the sum of both.
  for (const auto& [from, to] : {std::pair("(%m, %g)", "(%m, %i)"), std::pair("(%m, %g)", "(%v, %g)"),
                                 std::pair("function=sub} (%shift", "function=add} (%shift")}) {
    std::string tail = first;
    tail.replace(tail.find(from), std::string(from).size(), to);
    expect_unchanged(recognize_layer_norm, head + tail, input);
  }
}

TEST(RecognizeLayerNorm, RootMeanSquare) {
  const std::string body = R"(const %one: f32[] = 1
                 const %epsilon: f32[] = 0.5
                 const %scale: f32[5, 4] = 3
                 %s = pointwise {function=mul} (%x, %x)
                 %v = reduce {kind=mean, axes=[1, 2]} (%s)
                 %e = pointwise {function=add} (%epsilon, %v)
                 %r = pointwise {function=sqrt} (%e)
                 )";
  const std::string after = R"(const %scale: f32[5, 4] = 3
                 %z = layer_norm {axis=1, epsilon=0.5, root_mean_square=true} (%x, %scale)
                 return "z" = %z)";
  for (const std::string inverse : {"%i = pointwise {function=reciprocal} (%r)\n",  //
                                    "%i = pointwise {function=div} (%one, %r)\n"})
    expect_pass(recognize_layer_norm, body + inverse + R"(%y = pointwise {function=mul} (%i, %x)
                 %z = pointwise {function=mul} (%scale, %y)
                 return "z" = %z)",
                after, input);
}

TEST(RecognizeLayerNorm, OthersStay) {
  // Not the last axes.
  expect_unchanged(recognize_layer_norm,
                   R"(const %epsilon: f32[] = 0.5
                      %s = pointwise {function=mul} (%x, %x)
                      %v = reduce {kind=mean, axes=[1]} (%s)
                      %e = pointwise {function=add} (%v, %epsilon)
                      %r = pointwise {function=sqrt} (%e)
                      %y = pointwise {function=div} (%x, %r)
                      return "y" = %y)",
                   input);
  // Another value is divided.
  expect_unchanged(recognize_layer_norm,
                   R"(const %epsilon: f32[] = 0.5
                      %s = pointwise {function=mul} (%x, %x)
                      %v = reduce {kind=mean, axes=[2]} (%s)
                      %e = pointwise {function=add} (%v, %epsilon)
                      %r = pointwise {function=sqrt} (%e)
                      %y = pointwise {function=div} (%s, %r)
                      return "y" = %y)",
                   input);
  // A norm without the mean has no shift, and a factor for each row is not one for each element.
  expect_unchanged(recognize_layer_norm,
                   R"(const %shift: f32[4] = [1, 2, 3, 4]
                      const %rows: f32[5, 1] = [1, 2, 3, 4, 5]
                      %a = layer_norm {axis=2, root_mean_square=true} (%x)
                      %b = pointwise {function=add} (%a, %shift)
                      %c = layer_norm {axis=2} (%b)
                      %d = pointwise {function=mul} (%c, %rows)
                      return "d" = %d)",
                   input);
}

}  // namespace
}  // namespace camshaft

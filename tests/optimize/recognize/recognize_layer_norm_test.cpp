#include "optimize/recognize/recognize_layer_norm.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/reduce.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "test_random.h"

namespace camshaft::recognize_layer_norm_test {
namespace {

const std::string input = "%x: f32[n, 5, 4]";

// The pass leaves so many norms, and the graph computes what it did.
Graph expect_norms(const std::string& body, int64_t norms) {
  const Graph before = graph_of(input, body);
  Graph after = before;
  recognize_layer_norm(after, test_context());
  verify(after, "the pass");
  const auto is_norm = [](const Node& n) { return n.op.as<ops::LayerNorm>() != nullptr; };
  EXPECT_EQ(std::count_if(after.nodes.begin(), after.nodes.end(), is_norm), norms) << print(after);
  Random random = test_random();
  Tensor x(DType::f32, {3, 5, 4});
  for (int64_t i = 0; i < x.size(); ++i) x.as_mutable<float>()[i] = static_cast<float>(random.uniform(-1, 1));
  const auto wanted = evaluate(before, {x}, test_pool()), got = evaluate(after, {x}, test_pool());
  for (size_t o = 0; o < wanted.size(); ++o) {
    const auto a = wanted[o].to_doubles(), b = got[o].to_doubles();
    EXPECT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(std::abs(a[i] - b[i]) <= 1e-5 * (1 + std::abs(a[i])) || (std::isnan(a[i]) && std::isnan(b[i])))
          << print(before) << i << ": " << a[i] << ", " << b[i];
  }
  return after;
}

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

// E[x²] - E[x]², clamped or not, with the scale inside the inverse root, as Flax has it.
TEST(RecognizeLayerNorm, DifferenceOfMoments) {
  const std::string head = R"(const %epsilon: f32[] = 0.5
                 const %zero: f32[] = 0
                 const %scale: f32[4] = [1, 2, 3, 4]
                 const %shift: f32[4] = [5, 6, 7, 8]
                 %m = reduce {kind=mean, axes=[2]} (%x)
                 %s = pointwise {function=mul} (%x, %x)
                 %a = reduce {kind=mean, axes=[2]} (%s)
                 %b = pointwise {function=mul} (%m, %m)
                 %c = pointwise {function=sub} (%a, %b)
                 )";
  const std::string tail = R"(%r = pointwise {function=sqrt} (%e)
                 %i = pointwise {function=reciprocal} (%r)
                 %g = pointwise {function=mul} (%i, %scale)
                 %d = pointwise {function=sub} (%x, %m)
                 %y = pointwise {function=mul} (%d, %g)
                 %w = pointwise {function=add} (%y, %shift)
                 return "w" = %w)";
  const std::string plain = "%e = pointwise {function=add} (%c, %epsilon)\n",
                    clamped =
                        "%v = pointwise {function=max} (%zero, %c)\n%e = pointwise {function=add} (%v, %epsilon)\n",
                    after = R"(const %scale: f32[4] = [1, 2, 3, 4]
                 const %shift: f32[4] = [5, 6, 7, 8]
                 %w = layer_norm {axis=2, epsilon=0.5} (%x, %scale, %shift)
                 return "w" = %w)";
  for (const std::string& middle : {plain, clamped})
    expect_pass(recognize_layer_norm, head + middle + tail, after, input);
  // Multiplied out: the same.
  expect_pass(recognize_layer_norm, head + clamped + R"(%r = pointwise {function=sqrt} (%e)
                 %g = pointwise {function=div} (%scale, %r)
                 %y = pointwise {function=mul} (%x, %g)
                 %f = pointwise {function=mul} (%m, %g)
                 %o = pointwise {function=sub} (%shift, %f)
                 %w = pointwise {function=add} (%y, %o)
                 return "w" = %w)",
              after, input);
  // A mean along other axes; another mean's square; the difference the other way round; a norm of x without the mean; a
  // scale for each row; a product with the scale twice.
  const std::string whole = head + clamped + tail;
  for (const auto& [from, to] :
       {std::pair("kind=mean, axes=[2]} (%x)", "kind=mean, axes=[1, 2]} (%x)"), std::pair("(%m, %m)", "(%m, %a)"),
        std::pair("(%a, %b)", "(%b, %a)"), std::pair("(%d, %g)", "(%x, %g)"), std::pair("(%i, %scale)", "(%i, %m)"),
        std::pair("%zero: f32[] = 0", "%zero: f32[] = 1")}) {
    std::string text = whole;
    text.replace(text.find(from), std::string(from).size(), to);
    expect_norms(text, 0);
  }
}

// T5's, Llama's, and the sums of squares that Paddle and array libraries write.
TEST(RecognizeLayerNorm, RootMeanSquareInOtherWords) {
  const std::string constants = R"(const %epsilon: f32[] = 0.5
                 const %quarter: f32[] = 0.25
                 const %four: f32[] = 4
                 const %power: f32[] = -0.5
                 const %w: f32[4] = [1, 2, 3, 4]
                 )";
  const std::string product = "%s = pointwise {function=mul} (%x, %x)\n";
  const std::string means[] = {product + "%v = reduce {kind=mean, axes=[2]} (%s)\n",
                               product + "%t = reduce {axes=[2]} (%s)\n%v = pointwise {function=mul} (%t, %quarter)\n",
                               product + "%t = reduce {axes=[2]} (%s)\n%v = pointwise {function=div} (%t, %four)\n",
                               "%t = reduce {kind=sum_squares, axes=[2]} (%x)\n"
                               "%v = pointwise {function=mul} (%quarter, %t)\n"};
  const std::string inverse = R"(%e = pointwise {function=add} (%v, %epsilon)
                 %r = pointwise {function=sqrt} (%e)
                 %i = pointwise {function=reciprocal} (%r)
                 )";
  const std::string inverses[] = {inverse,
                                  "%e = pointwise {function=add} (%epsilon, %v)\n"
                                  "%i = pointwise {function=pow} (%e, %power)\n",
                                  "%e = pointwise {function=add} (%epsilon, %v)\n"
                                  "%r = pointwise {function=reciprocal} (%e)\n"
                                  "%i = pointwise {function=sqrt} (%r)\n"};
  const std::string scaled[] = {"%a = pointwise {function=mul} (%x, %i)\n%y = pointwise {function=mul} (%w, %a)\n",
                                "%a = pointwise {function=mul} (%w, %x)\n%y = pointwise {function=mul} (%a, %i)\n",
                                "%a = pointwise {function=mul} (%w, %i)\n%y = pointwise {function=mul} (%x, %a)\n"};
  for (const std::string& mean : means)
    for (const std::string& root : inverses)
      for (const std::string& scale : scaled) expect_norms(constants + mean + root + scale + "return \"y\" = %y", 1);
  // Divided by another count, the root of which is no mean; a power of another number; without an epsilon.
  expect_norms(constants +
                   "%t = reduce {kind=sum_squares, axes=[2]} (%x)\n%v = pointwise {function=div} (%t, %epsilon)\n" +
                   inverse + scaled[0] + "return \"y\" = %y",
               0);
  expect_norms(constants + means[0] + R"(%e = pointwise {function=add} (%v, %epsilon)
                 %i = pointwise {function=pow} (%e, %four)
                 )" +
                   scaled[0] + "return \"y\" = %y",
               0);
  expect_norms(constants + means[0] + R"(%r = pointwise {function=sqrt} (%v)
                 %i = pointwise {function=reciprocal} (%r)
                 )" +
                   scaled[0] + "return \"y\" = %y",
               0);
  // The epsilon outside of the root.
  expect_norms(constants + means[0] + R"(%r = pointwise {function=sqrt} (%v)
                 %e = pointwise {function=add} (%r, %epsilon)
                 %i = pointwise {function=reciprocal} (%e)
                 )" +
                   scaled[0] + "return \"y\" = %y",
               0);
}

// x / max(‖x‖, ε), and TensorFlow's x / √max(Σ x², ε); with factors behind it, as some have instead of an RMS norm.
TEST(RecognizeLayerNorm, EuclideanNorm) {
  const std::string constants = R"(const %least: f32[] = 0.75
                 const %root: f32[] = 2
                 const %w: f32[4] = [1, 2, 3, 4]
                 )";
  const std::string sums[] = {"%t = reduce {kind=sum_squares, axes=[2]} (%x)\n",
                              "%s = pointwise {function=mul} (%x, %x)\n%t = reduce {axes=[2]} (%s)\n"};
  const std::string bounded[] = {"%n = pointwise {function=sqrt} (%t)\n%c = pointwise {function=max} (%n, %least)\n",
                                 "%b = pointwise {function=max} (%least, %t)\n%c = pointwise {function=sqrt} (%b)\n",
                                 "%b = pointwise {function=add} (%t, %least)\n%c = pointwise {function=sqrt} (%b)\n"};
  const std::string quotients[] = {
      "%y = pointwise {function=div} (%x, %c)\n",
      "%i = pointwise {function=reciprocal} (%c)\n%y = pointwise {function=mul} (%i, %x)\n"};
  for (const std::string& sum : sums)
    for (const std::string& bound : bounded)
      for (const std::string& quotient : quotients) {
        const Graph plain = expect_norms(constants + sum + bound + quotient + "return \"y\" = %y", 1);
        EXPECT_EQ(plain.nodes.size(), 1U) << print(plain);
        const Graph scaled =
            expect_norms(constants + sum + bound + quotient + R"(%z = pointwise {function=mul} (%y, %root)
                 %v = pointwise {function=mul} (%w, %z)
                 return "v" = %v)",
                         1);
        EXPECT_EQ(scaled.nodes.size(), 1U) << print(scaled);
      }
  // A least number that f32 loses as a square; another value; another axis; a negative one; no number.
  const std::string whole = constants + sums[0] + bounded[0] + quotients[0] + "return \"y\" = %y";
  for (const auto& [from, to] :
       {std::pair("= 0.75", "= 1e-20"), std::pair("(%x, %c)", "(%t, %c)"), std::pair("axes=[2]", "axes=[1]"),
        std::pair("= 0.75", "= -0.75"), std::pair("(%n, %least)", "(%n, %t)")}) {
    std::string text = whole;
    text.replace(text.find(from), std::string(from).size(), to);
    expect_norms(text, 0);
  }
}

// What others read is computed beside the norm.
// A scale that is no constant, and one that is another number for each row.
TEST(RecognizeLayerNorm, EuclideanNormsOfOtherScalesStay) {
  const std::string norm = R"(
                 %s = pointwise {function=mul} (%x, %x)
                 %v = reduce {kind=sum, axes=[2]} (%s)
                 %e = pointwise {function=add} (%v, %epsilon)
                 %r = pointwise {function=sqrt} (%e)
                 )";
  const std::string epsilon = "const %epsilon: f32[] = 0.5\n";
  expect_unchanged(recognize_layer_norm, epsilon + norm + R"(%q = pointwise {function=div} (%g, %r)
                 %y = pointwise {function=mul} (%x, %q)
                 return "y" = %y)",
                   input + ", %g: f32[1]");
  expect_unchanged(recognize_layer_norm, epsilon + "const %rows: f32[5, 1] = [1, 2, 3, 4, 5]" + norm + R"(
                 %d = pointwise {function=mul} (%x, %rows)
                 %y = pointwise {function=div} (%d, %r)
                 return "y" = %y)",
                   input);
}

TEST(RecognizeLayerNorm, MomentsThatOthersRead) {
  const Graph after = expect_norms(R"(const %epsilon: f32[] = 0.5
                 %m = reduce {kind=mean, axes=[2]} (%x)
                 %d = pointwise {function=sub} (%x, %m)
                 %s = pointwise {function=mul} (%d, %d)
                 %v = reduce {kind=mean, axes=[2]} (%s)
                 %e = pointwise {function=add} (%v, %epsilon)
                 %r = pointwise {function=sqrt} (%e)
                 %y = pointwise {function=div} (%d, %r)
                 return "y" = %y, "m" = %m, "r" = %r)",
                                   1);
  EXPECT_EQ(after.nodes.size(), 7U);
}

TEST(RecognizeLayerNorm, BetweenCasts) {
  const std::string head = "%w = cast {to=f32} (%x)\n%a = layer_norm {axis=1, root_mean_square=true} (%w)\n",
                    half = "%x: f16[n, 4]";
  expect_pass(recognize_layer_norm, head + R"(const %g: f16[4] = [1, 2, 3, 4]
                 %b = cast {to=f16} (%a)
                 %y = pointwise {function=mul} (%g, %b)
                 return "y" = %y)",
              R"(const %g: f16[4] = [1, 2, 3, 4]
                 %y = layer_norm {axis=1, root_mean_square=true} (%x, %g)
                 return "y" = %y)",
              half);
  // Into another type, and one whose wide result others read.
  expect_unchanged(recognize_layer_norm, head + "%y = cast {to=bf16} (%a)\nreturn \"y\" = %y", half);
  expect_unchanged(recognize_layer_norm, head + "%y = cast {to=f16} (%a)\nreturn \"y\" = %y, \"a\" = %a", half);
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
}  // namespace camshaft::recognize_layer_norm_test

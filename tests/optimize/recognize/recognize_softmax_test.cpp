#include "optimize/recognize/recognize_softmax.h"

#include "optimize/pass_test.h"

namespace camshaft::recognize_softmax_test {
namespace {

const std::string input = "%x: f32[n, 5, 4]";
const std::string exponentials = R"(const %one: f32[] = 1
      %m = reduce {kind=max, axes=[2]} (%x)
      %d = pointwise {function=sub} (%x, %m)
      %e = pointwise {function=exp} (%d)
      %s = reduce {kind=sum, axes=[2]} (%e)
      )";

TEST(RecognizeSoftmax, SpelledOut) {
  for (const std::string tail : {"%y = pointwise {function=div} (%e, %s)\n",
                                 "%r = pointwise {function=reciprocal} (%s)\n%y = pointwise {function=mul} (%e, %r)\n",
                                 "%r = pointwise {function=div} (%one, %s)\n%y = pointwise {function=mul} (%r, %e)\n"})
    expect_pass(recognize_softmax, exponentials + tail + "return \"y\" = %y",
                "%y = softmax {axis=2} (%x)\nreturn \"y\" = %y", input);
}

TEST(RecognizeSoftmax, Logarithm) {
  for (const std::string tail : {"%y = pointwise {function=sub} (%d, %l)\n",
                                 "%a = pointwise {function=add} (%m, %l)\n%y = pointwise {function=sub} (%x, %a)\n",
                                 "%a = pointwise {function=add} (%l, %m)\n%y = pointwise {function=sub} (%x, %a)\n"})
    expect_pass(recognize_softmax, exponentials + "%l = pointwise {function=log} (%s)\n" + tail + "return \"y\" = %y",
                "%y = softmax {axis=2, log=true} (%x)\nreturn \"y\" = %y", input);
}

// The largest is subtracted once more by whoever wrote the model.
TEST(RecognizeSoftmax, ShiftedBefore) {
  const std::string head = R"(%m = reduce {kind=max, axes=[2]} (%x)
      %d = pointwise {function=sub} (%x, %m)
      )";
  expect_pass(recognize_softmax, head + "%y = softmax {axis=2} (%d)\nreturn \"y\" = %y",
              "%y = softmax {axis=2} (%x)\nreturn \"y\" = %y", input);
  // Another row's infinity would count.
  expect_unchanged(recognize_softmax, head + "%y = softmax {axis=1} (%d)\nreturn \"y\" = %y", input);
}

// What others read stays beside it.
TEST(RecognizeSoftmax, ValuesThatOthersRead) {
  expect_pass(recognize_softmax, exponentials + R"(%y = pointwise {function=div} (%e, %s)
      return "y" = %y, "s" = %s)",
              R"(%m = reduce {kind=max, axes=[2]} (%x)
      %d = pointwise {function=sub} (%x, %m)
      %e = pointwise {function=exp} (%d)
      %s = reduce {kind=sum, axes=[2]} (%e)
      %y = softmax {axis=2} (%x)
      return "y" = %y, "s" = %s)",
              input);
}

TEST(RecognizeSoftmax, OthersStay) {
  const std::string quotient = exponentials + "%y = pointwise {function=div} (%e, %s)\nreturn \"y\" = %y";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = quotient;
    text.replace(text.find(from), from.size(), to);
    return text.erase(0, text.find('\n') + 1);  // a constant that nobody reads
  };
  const std::string body = with("", "");
  EXPECT_NE(body, quotient);
  // The maximum, or the sum, along another axis, or along several; the other way round; of something else; a sum with a
  // further term; a smallest number.
  expect_unchanged(recognize_softmax, with("kind=max, axes=[2]", "kind=max, axes=[1]"), input);
  expect_unchanged(recognize_softmax, with("kind=sum, axes=[2]", "kind=sum, axes=[1]"), input);
  expect_unchanged(recognize_softmax, with("kind=max, axes=[2]", "kind=max, axes=[1, 2]"), input);
  expect_unchanged(recognize_softmax, with("kind=sum, axes=[2]", "kind=sum, axes=[1, 2]"), input);
  expect_unchanged(recognize_softmax, with("kind=max", "kind=min"), input);
  expect_unchanged(recognize_softmax, with("(%e, %s)", "(%s, %e)"), input);
  expect_unchanged(recognize_softmax, with("(%e, %s)", "(%d, %s)"), input);
  expect_unchanged(recognize_softmax, with("(%e, %s)", "(%x, %s)"), input);
  expect_unchanged(recognize_softmax, with("axes=[2]} (%e)", "axes=[2]} (%x)"), input);
  expect_unchanged(recognize_softmax,
                   with("%y = pointwise {function=div} (%e, %s)",
                        "%t = pointwise {function=add} (%s, %m)\n%y = pointwise {function=div} (%e, %t)"),
                   input);
  // Without the maximum: exp(89) is infinite.
  expect_unchanged(recognize_softmax, R"(%e = pointwise {function=exp} (%x)
      %s = reduce {kind=sum, axes=[2]} (%e)
      %y = pointwise {function=div} (%e, %s)
      return "y" = %y)",
                   input);
  // The logarithm of what vanished is -inf.
  expect_unchanged(recognize_softmax, R"(%p = softmax {axis=2} (%x)
      %y = pointwise {function=log} (%p)
      return "y" = %y)",
                   input);
}

TEST(RecognizeSoftmax, LogarithmOfOthersStays) {
  for (const std::string tail :
       {"%a = pointwise {function=add} (%s, %l)\n%y = pointwise {function=sub} (%x, %a)\n",
        "%a = pointwise {function=add} (%l, %m)\n%y = pointwise {function=sub} (%d, %a)\n",
        "%y = pointwise {function=sub} (%x, %l)\n", "%y = pointwise {function=sub} (%l, %d)\n"}) {
    const std::string head = exponentials.substr(exponentials.find('\n') + 1);
    expect_unchanged(recognize_softmax, head + "%l = pointwise {function=log} (%s)\n" + tail + "return \"y\" = %y",
                     input);
  }
}

}  // namespace
}  // namespace camshaft::recognize_softmax_test

#include "optimize/recognize/recognize_masks.h"

#include "optimize/pass_test.h"

namespace camshaft::recognize_masks_test {
namespace {

const std::string input = "%x: f32[n, 2, 3], %b: bool[n, 1, 3], %given: f32[1, 1, 3]";
const std::string head = R"(const %one: f32[] = 1
      const %c: f32[] = 10000.0
      const %low: f32[] = -10000.0
      %m = cast {to=f32} (%b)
      %o = pointwise {function=sub} (%one, %m)
      %s = pointwise {function=mul} (%x, %m)
      )";
const std::string chosen = R"(const %low: f32[] = -10000.0
      %y = pointwise {function=select} (%b, %x, %low)
      return "y" = %y)";

// GPT-2, TensorFlow's GPT-2 and the first GPT.
TEST(RecognizeMasks, OfBooleans) {
  for (const std::string tail : {"%t = pointwise {function=mul} (%o, %c)\n%y = pointwise {function=sub} (%s, %t)\n",
                                 "%t = pointwise {function=mul} (%c, %o)\n%y = pointwise {function=sub} (%s, %t)\n",
                                 "%t = pointwise {function=mul} (%low, %o)\n%y = pointwise {function=add} (%s, %t)\n",
                                 "%t = pointwise {function=mul} (%low, %o)\n%y = pointwise {function=add} (%t, %s)\n",
                                 R"(%u = pointwise {function=sub} (%m, %one)
                                    %t = pointwise {function=mul} (%u, %c)
                                    %y = pointwise {function=add} (%s, %t)
                                    )"})
    expect_pass(recognize_masks, head + tail + "return \"y\" = %y", chosen, input);
}

TEST(RecognizeMasks, OfConstants) {
  const std::string body = R"(const %m: f32[1, 2, 3] = [1, 0, 0, 1, 1, 0]
      const %t: f32[1, 2, 3] = [0, 7, 7, 0, 0, 7]
      %s = pointwise {function=mul} (%m, %x)
      %y = pointwise {function=sub} (%s, %t)
      return "y" = %y)";
  expect_pass(recognize_masks, body, R"(const %m: bool[1, 2, 3] = [true, false, false, true, true, false]
      const %low: f32[] = -7
      %y = pointwise {function=select} (%m, %x, %low)
      return "y" = %y)",
              input);
  // Not of 0 and 1; several numbers; something where the mask is 1; the mask that is 1 is 0 here; without limits.
  for (const auto& [from, to] :
       {std::pair("[1, 0, 0, 1, 1, 0]", "[2, 0, 0, 1, 1, 0]"), std::pair("[0, 7, 7, 0, 0, 7]", "[0, 7, 7, 0, 0, 8]"),
        std::pair("[0, 7, 7, 0, 0, 7]", "[1, 7, 7, 1, 1, 7]"), std::pair("[0, 7, 7, 0, 0, 7]", "[7, 0, 0, 7, 7, 0]"),
        std::pair("[0, 7, 7, 0, 0, 7]", "[0, inf, inf, 0, 0, inf]")}) {
    std::string text = body;
    text.replace(text.find(from), std::string(from).size(), to);
    expect_unchanged(recognize_masks, text, input);
  }
}

// A part of a triangle, which only running cuts out.
TEST(RecognizeMasks, OfParts) {
  expect_pass(recognize_masks, R"(const %one: f32[] = 1
      const %low: f32[] = -5
      const %all: f32[1, 9, 3] = 1
      %m = slice {axes=[1], starts=shape(n), counts=shape(2), steps=[1]} (%all)
      %o = pointwise {function=sub} (%one, %m)
      %t = pointwise {function=mul} (%o, %low)
      %s = pointwise {function=mul} (%x, %m)
      %y = pointwise {function=add} (%s, %t)
      return "y" = %y)",
              R"(const %low: f32[] = -5
      const %all: f32[1, 9, 3] = 1
      const %half: f32[] = 0.5
      %m = slice {axes=[1], starts=shape(n), counts=shape(2), steps=[1]} (%all)
      %k = pointwise {function=less} (%half, %m)
      %y = pointwise {function=select} (%k, %x, %low)
      return "y" = %y)",
              input);
}

TEST(RecognizeMasks, OthersStay) {
  // Any numbers; another mask; (2 - m) · c; a smaller x, which the mask repeats; the other way round; c without the
  // mask.
  const std::string body = R"(const %one: f32[] = 1
      const %c: f32[] = 10000.0
      %m = cast {to=f32} (%b)
      %o = pointwise {function=sub} (%one, %m)
      %t = pointwise {function=mul} (%o, %c)
      %s = pointwise {function=mul} (%x, %m)
      %y = pointwise {function=sub} (%s, %t)
      return "y" = %y)";
  for (const auto& [from, to] : {std::pair("%m = cast {to=f32} (%b)", "%m = pointwise {function=exp} (%given)"),
                                 std::pair("(%x, %m)", "(%x, %given)"), std::pair("%one: f32[] = 1", "%one: f32[] = 2"),
                                 std::pair("(%x, %m)", "(%given, %m)"), std::pair("(%s, %t)", "(%t, %s)")}) {
    std::string text = body;
    text.replace(text.find(from), std::string(from).size(), to);
    expect_unchanged(recognize_masks, text, input);
  }
  expect_unchanged(recognize_masks, R"(const %c: f32[] = 10000.0
      %m = cast {to=f32} (%b)
      %s = pointwise {function=mul} (%x, %m)
      %y = pointwise {function=sub} (%s, %c)
      return "y" = %y)",
                   input);
}

}  // namespace
}  // namespace camshaft::recognize_masks_test

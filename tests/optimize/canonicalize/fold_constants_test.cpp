#include "optimize/canonicalize/fold_constants.h"

#include <fmt/format.h>

#include "optimize/pass_test.h"

namespace camshaft {
namespace {

TEST(FoldConstants, EvaluatesNodesOnConstants) {
  expect_pass(fold_constants,
              R"(const %a: f32[3] = [1, 2, 3]
                 const %b: f32[] = 10
                 %c = pointwise {function=mul} (%a, %b)
                 %y = pointwise {function=add} (%x, %c)
                 return "y" = %y)",
              R"(const %c: f32[3] = [10, 20, 30]
                 %y = pointwise {function=add} (%x, %c)
                 return "y" = %y)");
}

// They are functions of their seed (ir/ops/random.h). Of one class there is one number to draw.
TEST(FoldConstants, WhatIsDrawnFromConstantsIsOneToo) {
  expect_pass(fold_constants,
              R"(const %p: f32[2, 1] = 0
                 %y = multinomial {samples=3, seed=7} (%p)
                 return "y" = %y)",
              R"(const %y: i32[2, 3] = 0
                 return "y" = %y)");
}

TEST(FoldConstants, GraphOutputsMayBecomeConstants) {
  expect_pass(fold_constants,
              R"(const %a: f32[2] = [4, 9]
                 %y = pointwise {function=sqrt} (%a)
                 return "y" = %y)",
              R"(const %y: f32[2] = [2, 3]
                 return "y" = %y)");
}

TEST(FoldConstants, SmallConstantsAreNotBlownUp) {
  expect_unchanged(fold_constants, R"(const %a: f32[] = 1
                                      %e = expand {shape=shape(1000, 1000)} (%a)
                                      return "e" = %e)");
  expect_pass(fold_constants,
              R"(const %a: f32[] = 1
                 %e = expand {shape=shape(2, 2)} (%a)
                 return "e" = %e)",
              R"(const %e: f32[2, 2] = 1
                 return "e" = %e)");
}

TEST(FoldConstants, BesideLargeConstantsMoreIsSmall) {
  // 64 MiB, a 128th of which are 512 KiB.
  const std::string large = "const %w: f32[16777216] = 2\n";
  const std::string rest = "%y = pointwise {function=add} (%x, %w)\nreturn \"y\" = %y, \"e\" = %e";
  expect_pass(fold_constants, large + "const %a: f32[] = 1\n%e = expand {shape=shape(131072)} (%a)\n" + rest,
              large + "const %e: f32[131072] = 1\n" + rest, "%x: f32[16777216]");
  expect_unchanged(fold_constants, large + "const %a: f32[] = 1\n%e = expand {shape=shape(131073)} (%a)\n" + rest,
                   "%x: f32[16777216]");
}

TEST(FoldConstants, ShapeArithmeticVanishes) {
  expect_pass(fold_constants,
              R"(%s = shape_of {start=0, end=2} (%x)
                 const %two: i64[] = 2
                 %t = pointwise {function=mul} (%s, %two)
                 return "t" = %t)",
              R"(%t = dims {elements=shape(2*n, 6)} ()
                 return "t" = %t)",
              "%x: f32[n, 3]");
  expect_pass(fold_constants,
              R"(%s = shape_of {start=1, end=2} (%x)
                 %t = cast {to=i32} (%s)
                 return "t" = %t)",
              R"(const %t: i32[1] = 3
                 return "t" = %t)",
              "%x: f32[n, 3]");
}

TEST(FoldConstants, Bodies) {
  // The other branch would fail if it were taken.
  expect_pass(fold_constants,
              R"(%y = if {} (%c, %x)
                   graph "yes" (%x: f32[3]) {
                     const %a: f32[3] = [1, 2, 3]
                     const %b: f32[] = 10
                     %p = pointwise {function=mul} (%a, %b)
                     %r = pointwise {function=add} (%x, %p)
                     return "r" = %r
                   }
                   graph "no" (%x: f32[3]) {
                     const %never: bool[] = false
                     const %a: f32[3] = [1, 2, 3]
                     %r = check {wanted=true, message="never"} (%never, %a)
                     return "r" = %r
                   }
                 return "y" = %y)",
              R"(%y = if {} (%c, %x)
                   graph "yes" (%x: f32[3]) {
                     const %p: f32[3] = [10, 20, 30]
                     %r = pointwise {function=add} (%x, %p)
                     return "r" = %r
                   }
                   graph "no" (%x: f32[3]) {
                     const %never: bool[] = false
                     const %a: f32[3] = [1, 2, 3]
                     %r = check {wanted=true, message="never"} (%never, %a)
                     return "r" = %r
                   }
                 return "y" = %y)",
              "%c: bool[], %x: f32[3]");
}

TEST(FoldConstants, WhatDependsOnSizesIsNotEvaluated) {
  expect_unchanged(fold_constants,
                   R"(const %a: f32[1, 3] = [1, 2, 3]
                      %e = expand {shape=shape(n, 3)} (%a)
                      return "e" = %e)",
                   "%x: f32[n, 3]");
  expect_unchanged(fold_constants,
                   R"(const %a: f32[3] = [1, 2, 3]
                      %e = slice {axes=[0], starts=shape(n), counts=shape(1), steps=[1]} (%a)
                      return "e" = %e)",
                   "%x: f32[n, 3]");
}

// The size of a range is a symbol while its bounds are computed, and everything after it is written in that symbol.
TEST(FoldConstants, SizesOfWhatBecomesConstantAreKnown) {
  const std::string after_range = R"(%p = pointwise {function=mul} (%r, %x)
      %t = reshape {shape=shape(1, SIZE)} (%p)
      return "t" = %t)";
  const auto with_size = [&](const std::string& size) {
    std::string text = after_range;
    return text.replace(text.find("SIZE"), 4, size);
  };
  expect_pass(fold_constants,
              R"(const %start: i32[] = 0
                 const %limit: i32[] = 4
                 const %step: i32[] = 1
                 %a = cast {to=f32} (%start)
                 %b = cast {to=f32} (%limit)
                 %c = cast {to=f32} (%step)
                 %r = range (%a, %b, %c)
)" + with_size("@r.0"),
              "const %r: f32[4] = [0, 1, 2, 3]\n" + with_size("4"), "%x: f32[1]");
}

// Found by fuzzing: the type of a container went on saying that the size is not known, and its engine was refused.
TEST(FoldConstants, SizesOfElementsAreKnownToo) {
  const std::string sequence = R"(%s = sequence_construct (%r, %r)
      %e = sequence_at {rank=1} (%s, %i)
      return "s" = %s, "e" = %e)";
  expect_pass(fold_constants,
              R"(const %a: f32[] = 0
                 const %b: f32[] = 4
                 const %c: f32[] = 1
                 %d = pointwise {function=neg} (%c)
                 %step = pointwise {function=neg} (%d)
                 %r = range (%a, %b, %step)
)" + sequence,
              "const %r: f32[4] = [0, 1, 2, 3]\n" + sequence, "%i: i64[]");
}

TEST(FoldConstants, WhatIsFoundToBeWrongIsTheModelsFault) {
  const char* const models[] = {
      // Element 8 of 4.
      R"(graph "g" (%x: f32[4]) {
      const %a: i32[] = 4
      const %b: f32[] = 0.5
      %c = cast {to=f32} (%a)
      %d = pointwise {function=div} (%c, %b)
      %i = cast {to=i64} (%d)
      %y = gather {axis=0} (%x, %i)
      return "y" = %y
    })",
      // Four elements reshaped to three, found not where they become constant but where they are used.
      R"(graph "g" (%x: f32[1]) {
      const %start: i32[] = 0
      const %limit: i32[] = 4
      const %step: i32[] = 1
      %a = cast {to=f32} (%start)
      %b = cast {to=f32} (%limit)
      %c = cast {to=f32} (%step)
      %r = range (%a, %b, %c)
      %p = pointwise {function=mul} (%r, %x)
      %y = reshape {shape=shape(3)} (%p)
      return "y" = %y
    })"};
  for (const char* model : models) {
    try {
      run_pass(fold_constants, model);
      ADD_FAILURE() << "taken: " << model;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_model) << e.what();
    }
  }
}

// Each link is twice as large as the one before, which alone is always worth folding.
TEST(FoldConstants, ChainsThatDoubleEnd) {
  std::string text = "graph \"g\" () {\nconst %c0: f32[1024] = 1\n";
  for (int i = 1; i <= 40; ++i) text += fmt::format("%c{} = concat {{axis=0}} (%c{}, %c{})\n", i, i - 1, i - 1);
  const Graph graph = run_pass(fold_constants, text + "return \"c\" = %c40\n}");
  EXPECT_GT(graph.nodes.size(), 20U);
  EXPECT_LT(graph.nodes.size(), 40U);
  size_t bytes = 0;
  for (const Value& value : graph.values)
    if (value.constant) bytes += value.constant->bytes();
  EXPECT_LT(bytes, size_t{200} << 20);
}

}  // namespace
}  // namespace camshaft

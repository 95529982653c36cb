#include "optimize/canonicalize/fold_constants.h"

#include <fmt/format.h>

#include "optimize/pass_test.h"

namespace camshaft::fold_constants_test {
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

std::string numbers_below(int64_t limit) {
  return fmt::format(
      "const %zero: i64[] = 0\nconst %one: i64[] = 1\nconst %limit: i64[] = {}\n"
      "%r = range (%zero, %limit, %one)\n",
      limit);
}

Graph folded(const std::string& inputs, const std::string& body) {
  return run_pass(fold_constants, graph_text(inputs, body));
}

// Positions, indices and a table, far larger than what they are made of: one constant is left where x meets it.
TEST(FoldConstants, WhatHasGrownIsMadeWhereItIsRead) {
  const Graph graph = folded("%x: f32[50000]", numbers_below(50000) + R"(
      const %ten: i64[] = 10
      const %table: f32[10] = [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]
      %digit = pointwise {function=mod} (%r, %ten)
      %square = gather {axis=0} (%table, %digit)
      %y = pointwise {function=add} (%x, %square)
      return "y" = %y)");
  ASSERT_EQ(graph.nodes.size(), 1U) << print(graph);
  const ValueId table = graph.nodes[0].inputs[1];
  ASSERT_TRUE(graph.is_constant(table));
  EXPECT_EQ(graph.value(table).constant->as<float>()[49987], 49);
}

// What lies between is not stored, however large it is.
TEST(FoldConstants, SmallResultsOfWhatHasGrown) {
  expect_pass(fold_constants,
              R"(const %a: f32[] = 2
                 %e = expand {shape=shape(1000, 1000)} (%a)
                 %s = reduce {kind=sum, axes=[0, 1], keep_dims=false} (%e)
                 %y = pointwise {function=add} (%x, %s)
                 return "y" = %y)",
              R"(const %s: f32[] = 2000000
                 %y = pointwise {function=add} (%x, %s)
                 return "y" = %y)");
}

TEST(FoldConstants, WhatOnlyRepeatsAConstantIsNotStored) {
  expect_unchanged(fold_constants, R"(const %a: f32[1, 2] = [1, 2]
                                      %e = expand {shape=shape(500, 1000, 2)} (%a)
                                      %t = transpose {permutation=[2, 0, 1]} (%e)
                                      %y = pointwise {function=add} (%t, %x)
                                      return "y" = %y)",
                   "%x: f32[2, 500, 1000]");
}

// As the identity, of which EyeLike makes a comparison of positions.
TEST(FoldConstants, OutputsOfOneElementButForFewAreWritten) {
  const std::string identity = numbers_below(300) + R"(
      %c = reshape {shape=shape(300, 1)} (%r)
      %e = pointwise {function=equal} (%c, %r)
      %y = cast {to=f32} (%e)
      )";
  Graph alone = graph_of("%x: f32[300, 300]", identity + "return \"y\" = %y");
  fold_constants(alone, test_context());
  verify(alone, "the pass under test");
  ASSERT_EQ(alone.nodes.size(), 3U) << print(alone);
  ASSERT_EQ(to_string(alone.nodes[1].op).substr(0, 16), "scatter_elements");
  const std::vector<ValueId>& operands = alone.nodes[1].inputs;
  const Tensor &indices = *alone.value(operands[1]).constant, &updates = *alone.value(operands[2]).constant;
  ASSERT_EQ(indices.dims(), Dims{300});
  for (int64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(indices.as<int64_t>()[static_cast<size_t>(i)], 301 * i);
    ASSERT_EQ(updates.as<float>()[static_cast<size_t>(i)], 1);
  }
  EXPECT_EQ(alone.shape(alone.outputs[0]), (Shape{300, 300}));
  Graph again = alone;
  fold_constants(again, test_context());
  EXPECT_TRUE(equal(again, alone)) << print(again);
  // What other steps read is a constant for them, and what new weights may change stays one.
  const std::string read_too = R"(%z = pointwise {function=add} (%x, %y)
                                  return "y" = %y, "z" = %z)";
  Graph read = graph_of("%x: f32[300, 300]", identity + read_too);
  fold_constants(read, test_context());
  EXPECT_TRUE(read.is_constant(read.outputs[0])) << print(read);
  const Graph named = folded("%x: f32[300, 300]", identity + "return \"y\" = %y");
  EXPECT_TRUE(named.is_constant(named.outputs[0])) << print(named);
}

// 16 MiB beside small constants, a quarter of large ones.
TEST(FoldConstants, OnlySoMuchOfWhatHasGrownIsStored) {
  const std::string rest = R"(
      %y = pointwise {function=add} (%x, %r)
      return "y" = %y)";
  const auto steps = [&](int64_t count, const std::string& more) {
    return folded(fmt::format("%x: i64[{}]", count), more + numbers_below(count) + rest).nodes.size();
  };
  EXPECT_EQ(steps(2'097'152, ""), 1U);
  EXPECT_EQ(steps(2'097'153, ""), 2U);
  const Graph both = folded("%x: i64[1500000]", numbers_below(1'500'000) + R"(
      %n = pointwise {function=neg} (%r)
      %p = pointwise {function=mul} (%x, %r)
      %q = pointwise {function=mul} (%p, %n)
      return "q" = %q)");
  EXPECT_EQ(both.nodes.size(), 3U) << "12 MB are stored, and 12 more are computed of them";
}

TEST(FoldConstants, RandomNumbersToo) {
  const auto steps = [&](int64_t count) {
    return folded(fmt::format("%x: f32[{}]", count), fmt::format(R"(%r = random {{shape=shape({}), seed=1}} ()
      %y = pointwise {{function=add}} (%x, %r)
      return "y" = %y)",
                                                                 count))
        .nodes.size();
  };
  EXPECT_EQ(steps(1000), 1U);
  EXPECT_EQ(steps(1'000'000), 1U);
  EXPECT_EQ(steps(5'000'000), 2U);
}

// What comes after is written in the size that only the elements tell.
TEST(FoldConstants, PlacesThatConstantsTell) {
  expect_pass(fold_constants,
              R"(const %w: f32[2, 3] = [0, 1, 0, 2, 0, 3]
                 %places = non_zero (%w)
                 %two = slice {axes=[0], starts=shape(1), counts=shape(1), steps=[1]} (%places)
                 %flat = reshape {shape=shape(@places.1)} (%two)
                 %y = gather {axis=1} (%x, %flat)
                 return "y" = %y)",
              R"(const %flat: i64[3] = [1, 0, 2]
                 %y = gather {axis=1} (%x, %flat)
                 return "y" = %y)");
}

// 17 billion operations: seconds here, and nothing for a kernel that runs once.
TEST(FoldConstants, LargeProductsAreLeftToKernels) {
  expect_unchanged(fold_constants, R"(const %a: f32[2048, 2048] = 0.5
                                      const %b: f32[2048, 2048] = 0.25
                                      %m = matmul (%a, %b)
                                      %y = matmul (%x, %m)
                                      return "y" = %y)",
                   "%x: f32[2, 2048]");
}

}  // namespace
}  // namespace camshaft::fold_constants_test

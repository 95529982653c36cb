// What evaluating a graph takes of a budget.
#include <fmt/format.h>

#include <limits>

#include "base/cancellation_points.h"
#include "base/work_scope.h"
#include "ir/ops/dynamic.h"
#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/operators.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/sequence.h"
#include "ir/ops/strings.h"
#include "ir/text.h"
#include "reference/operations.h"
#include "reference/single_op.h"

namespace camshaft::budget_test {
namespace {

Graph of_two_nodes() {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {1000, 1000}});
  const ValueId y = graph.add(ops::Pointwise{ScalarFunction::exp}, {x}, "y", {"first"});
  graph.add_output("z", graph.add(ops::Pointwise{ScalarFunction::neg}, {y}, "z", {"second"}));
  return graph;
}

std::string refusal(double operations, size_t bytes) {
  const Graph graph = of_two_nodes();
  const std::vector<Tensor> inputs{Tensor(DType::f32, {1000, 1000})};
  const Cancellation cancellation;
  const WorkScope scope(cancellation, std::make_shared<Budget>(operations, bytes, "more work", "more memory"));
  try {
    evaluate(graph, inputs, test_pool());
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), bytes < 1 << 30 ? ErrorCode::out_of_memory : ErrorCode::unsupported);
    return e.what();
  }
}

TEST(EvaluationBudget, NamesTheNodeThatIsTooMuch) {
  EXPECT_EQ(refusal(6e8, 1 << 30), "");  // 400 an element for an exponential, and 200
  EXPECT_NE(refusal(3e7, 1 << 30).find("node 'first'"), std::string::npos);
  const std::string second = refusal(5e8, 1 << 30);
  EXPECT_NE(second.find("node 'second'"), std::string::npos) << second;
  EXPECT_NE(second.find("more work"), std::string::npos) << second;
}

// A loop of them would go on for ever.
TEST(EvaluationBudget, CountsResultsWhoseSizesOnlyRunningTells) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {1, 2}});
  const ValueId repeats = graph.add_input("repeats", {DType::i64, {2}});
  graph.add_output("y", graph.add(ops::DynamicTile{}, {x, repeats}, "y", {"tiled"}));
  const std::vector<Tensor> inputs{Tensor(DType::f32, {1, 2}), Tensor::from_ints({1'000'000, 1})};
  const auto taken = [&](double operations) {
    const Cancellation cancellation;
    const auto budget = std::make_shared<Budget>(operations, 1 << 30, "more work", "more memory");
    const WorkScope scope(cancellation, budget);
    evaluate(graph, inputs, test_pool());
    return budget->operations_taken();
  };
  EXPECT_NEAR(taken(1e9), 200e6, 1e4);
  EXPECT_THROW(taken(190e6), Error);
}

// One whose body has no operators took nothing, and went on for ever.
TEST(EvaluationBudget, CountsIterationsOfAnEmptyBody) {
  const Graph graph = parse_graph(R"(graph "g" (%n: i64[], %x: f32[2]) {
    %y = loop {carried=1} (%n, -, %x)
      graph "body" (%i: i64[], %go: bool[], %a: f32[2]) { return "go" = %go, "y" = %a }
    return "y" = %y
  })",
                                  operators());
  const Cancellation cancellation;
  const auto budget = std::make_shared<Budget>(1e9, 1 << 30, "more work", "more memory");
  const WorkScope scope(cancellation, budget);
  const auto run = [&](int64_t trips) {
    return evaluate(graph, {Tensor::scalar(DType::i64, trips), Tensor(DType::f32, {2})}, test_pool());
  };
  run(100);
  EXPECT_NEAR(budget->operations_taken(), 100 * least_operations, 2 * least_operations);
  EXPECT_THROW(run(std::numeric_limits<int64_t>::max()), Error);
}

// What there is beside the elements of a piece is most of it, and there are as many as elements.
TEST(EvaluationBudget, CountsPiecesOfASequence) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {1'000'000}});
  const ValueId one = graph.add_constant("one", Tensor::scalar(DType::i64, 1));
  graph.add_output("y", graph.add(ops::SplitToSequence{}, {x, one}, "y", {"split"}));
  const auto split = [&](double operations, size_t bytes) {
    const Cancellation cancellation;
    const WorkScope scope(cancellation, std::make_shared<Budget>(operations, bytes, "more work", "more memory"));
    evaluate(graph, {Tensor(DType::f32, {1'000'000})}, test_pool());
  };
  split(1e10, 1 << 30);
  EXPECT_THROW(split(1e9, 1 << 30), Error);
  EXPECT_THROW(split(1e10, 200'000'000), Error);
}

// Eight times as large as a result of bytes.
TEST(EvaluationBudget, CountsListsBesideTensors) {
  constexpr int64_t count = 1'000'000;
  const auto takes_more = [](const Op& op, const std::vector<Tensor>& inputs, size_t bytes) {
    const Cancellation cancellation;
    const WorkScope scope(cancellation, std::make_shared<Budget>(1e12, bytes, "more work", "more memory"));
    try {
      run_op(op, inputs);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::out_of_memory);
      return true;
    }
    return false;
  };
  const Tensor x(DType::i8, {1}), many(DType::i32, {count}), rows = many.reshaped({count, 1});
  const ops::Pad pad{ops::PadMode::wrap, {Dim(0), Dim(count - 1)}};
  for (const auto& [op, inputs] : std::vector<std::pair<Op, std::vector<Tensor>>>{
           {pad, {x}}, {ops::Gather{0}, {x, many}}, {ops::GatherND{}, {x, rows}}}) {
    EXPECT_TRUE(takes_more(op, inputs, 8 * count)) << op.name();
    EXPECT_FALSE(takes_more(op, inputs, 10 * count)) << op.name();
  }
  // Of scatters 8 bytes for each element that is combined, in the data and in what goes there.
  const Tensor data(DType::i8, {count}), updates(DType::i8, {count});
  const Op adds = ops::ScatterElements{0, ops::ScatterKind::add};
  EXPECT_TRUE(takes_more(adds, {data, many, updates}, 20 * count));
  EXPECT_FALSE(takes_more(adds, {data, many, updates}, 30 * count));
  // And one for each slice, of indices without a number as well.
  const Op assigns = ops::ScatterND{};
  EXPECT_TRUE(takes_more(assigns, {x, Tensor(DType::i64, {count, 0}), updates.reshaped({count, 1})}, 7 * count));
  EXPECT_FALSE(takes_more(assigns, {x, Tensor(DType::i64, {count, 0}), updates.reshaped({count, 1})}, 10 * count));
}

TEST(EvaluationBudget, CountsTensorsAsLongAsTheyLive) {
  // Each result is 4 MB, and the first is gone when the second is returned.
  EXPECT_NE(refusal(1e12, 7'000'000).find("node 'second'"), std::string::npos);
  EXPECT_NE(refusal(1e12, 3'000'000).find("node 'first'"), std::string::npos);
  EXPECT_EQ(refusal(1e12, 8'000'000), "");
}

// A file of 1.4 kB whose text is joined with itself 45 times would take 70 TB.
TEST(EvaluationBudget, CountsWhatTextsHold) {
  Graph graph;
  ValueId text = graph.add_input("x", {DType::string, {1}});
  for (int i = 0; i < 45; ++i)
    text = graph.add(ops::StringConcat{}, {text, text}, fmt::format("text{}", i), {fmt::format("join{}", i)});
  graph.add_output("y", text);
  const auto budget = std::make_shared<Budget>(1e12, 1 << 20, "more work", "more memory");
  const Cancellation cancellation;
  const WorkScope scope(cancellation, budget);
  try {
    evaluate(graph, {Tensor::of<std::string>(DType::string, {1}, {"ab"})}, test_pool());
    FAIL() << "70 TB";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::out_of_memory);
    // 512 KiB and what that was made of are alive when the next is asked for.
    EXPECT_NE(std::string(e.what()).find("node 'join18'"), std::string::npos) << e.what();
  }
  EXPECT_GT(budget->most_bytes_in_use(), size_t{1} << 19);
}

// As when constants are folded one after another, each of which stays.
TEST(EvaluationBudget, CountsTextsAsLongAsTheirTensorLives) {
  const auto budget = std::make_shared<Budget>(1e12, 1 << 20, "more work", "more memory");
  const Cancellation cancellation;
  const WorkScope scope(cancellation, budget);
  {
    std::vector<Tensor> kept{Tensor::of<std::string>(DType::string, {1}, {std::string(1 << 17, 'a')})};
    const auto join = [&] { kept.push_back(run_op(ops::StringConcat{}, {kept.back(), kept[0]})[0]); };
    join();
    join();
    EXPECT_THROW(join(), Error) << "five eighths are in use, and half is asked for";
  }
  EXPECT_NO_THROW(MemoryClaim(1 << 19)) << "all were given back";
}

// 1000 parts of 32 bytes each, which are collected before they become a tensor.
TEST(EvaluationBudget, CountsPartsOfTexts) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "a,";
  const Tensor texts = Tensor::of<std::string>(DType::string, {2}, {text, text});
  const auto fits = [&](size_t bytes) {
    const Cancellation cancellation;
    const WorkScope scope(cancellation, std::make_shared<Budget>(1e12, bytes, "more work", "more memory"));
    try {
      run_op(ops::StringSplit{","}, {texts});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::out_of_memory);
      return false;
    }
    return true;
  };
  EXPECT_FALSE(fits(100'000)) << "the result alone is 64 kB";
  EXPECT_TRUE(fits(200'000));
}

// What would be 4 GB of texts of 1 MB, where 64 MB are allowed, is refused while few of them are there.
TEST(EvaluationBudget, CountsTextsBeforeTheyAreWritten) {
  constexpr int64_t count = 4096;
  constexpr size_t bytes = size_t{64} << 20, long_text = size_t{1} << 20;
  const std::string text(long_text, 'a');
  const Tensor one = Tensor::of<std::string>(DType::string, {1}, {text});
  const Tensor zeros(DType::i64, {count});
  const Tensor chosen(DType::boolean, {count});
  const ops::Pad pad{ops::PadMode::edge, {Dim(0), Dim(count - 1)}};
  for (const auto& [op, inputs] :
       std::vector<std::pair<Op, std::vector<Tensor>>>{{ops::Expand{{Dim(count)}}, {one}},
                                                       {ops::Gather{0}, {one, zeros}},
                                                       {ops::GatherElements{0}, {one, zeros}},
                                                       {ops::GatherND{}, {one, zeros.reshaped({count, 1})}},
                                                       {pad, {one}},
                                                       {ops::Concat{0}, std::vector<Tensor>(count, one)},
                                                       {ops::Pointwise{ScalarFunction::select}, {chosen, one, one}},
                                                       {ops::StringConcat{}, {one, Tensor(DType::string, {count})}}}) {
    const auto budget = std::make_shared<Budget>(1e12, bytes, "more work", "more memory");
    const Cancellation cancellation;
    const WorkScope scope(cancellation, budget);
    try {
      run_op(op, inputs);
      ADD_FAILURE() << op.name();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::out_of_memory) << op.name();
    }
    EXPECT_LE(budget->most_bytes_in_use(), bytes) << op.name();
    EXPECT_NO_THROW(MemoryClaim(bytes - (1 << 20))) << op.name() << " has given all back";
  }
}

// A result counts once, and what is written over in place does not count again.
TEST(EvaluationBudget, TextsThatFitAreCountedOnce) {
  const std::string text(1 << 20, 'a');
  const Tensor four = Tensor::of<std::string>(DType::string, {4}, {text, text, text, text});
  const Cancellation cancellation;
  const auto budget = std::make_shared<Budget>(1e12, size_t{6} << 20, "more work", "more memory");
  const WorkScope scope(cancellation, budget);
  const Tensor kept = run_op(ops::Gather{0}, {four, Tensor::from_ints({0, 1, 2, 3})})[0];
  EXPECT_THROW(run_op(ops::Gather{0}, {four, Tensor::from_ints({0, 1, 2})}), Error);
  EXPECT_NO_THROW(run_op(ops::Gather{0}, {four, Tensor::from_ints({0})}));
  EXPECT_GE(budget->most_bytes_in_use(), size_t{5} << 20);
  EXPECT_LT(budget->most_bytes_in_use(), size_t{6} << 20);
}

// 10^5 long texts were moved for 5 to 9 s after Ctrl-C: in one piece of a loop.
TEST(EvaluationBudget, LongTextsCanBeCancelledEach) {
  const Tensor one = Tensor::of<std::string>(DType::string, {1}, {std::string(10'000, 'a')});
  const int64_t before = cancellation_points_passed();
  run_op(ops::Expand{{Dim(1000)}}, {one});
  EXPECT_GE(cancellation_points_passed() - before, 1000);
}

}  // namespace
}  // namespace camshaft::budget_test

#include "builder/build_budget.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/memory_limit.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"

namespace camshaft::build_budget_test {
namespace {

/// x · w, and its exponential.
Graph product(const Dim& rows, int64_t columns) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {rows, columns}});
  const ValueId w = graph.add_constant("w", Tensor(DType::f32, {columns, columns}));
  const ValueId y = graph.add(ops::MatMul{}, {x, w}, "y", {"the product"});
  graph.add_output("z", graph.add(ops::Pointwise{ScalarFunction::exp}, {y}, "z", {"its exponential"}));
  return graph;
}

// The machine's memory, for one test.
class Memory {
 public:
  explicit Memory(size_t bytes) : before_(largest_buffer()) { set_largest_buffer(bytes); }
  ~Memory() { set_largest_buffer(before_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

 private:
  size_t before_;
};

bool takes_bytes(const Budget& budget, size_t bytes) {
  try {
    const_cast<Budget&>(budget).take_bytes(bytes);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(e.what()).find("--max-memory"), std::string::npos);
    return false;
  }
  const_cast<Budget&>(budget).give_back_bytes(bytes);
  return true;
}

bool takes_operations(const Budget& budget, double count) {
  try {
    budget.check_operations(count);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(e.what()).find("--max-operations"), std::string::npos);
    return false;
  }
  return true;
}

TEST(BuildBudget, DefaultsGrowWithTheConstantsAndTheMachine) {
  const Graph model = product(8, 1000);  // 4 MB
  constexpr size_t gib = size_t{1} << 30;
  const Memory small(8 * gib);
  const auto budget = make_budget({}, model);
  EXPECT_TRUE(takes_bytes(*budget, 6 * gib + 64'000'000));
  EXPECT_FALSE(takes_bytes(*budget, 6 * gib + 64'000'001));
  EXPECT_TRUE(takes_operations(*budget, 3e14));
  EXPECT_FALSE(takes_operations(*budget, 3.1e14));
  const Memory large(100 * gib);
  EXPECT_TRUE(takes_bytes(*make_budget({}, model), 25 * gib));
  EXPECT_FALSE(takes_bytes(*make_budget({}, model), 26 * gib));
}

// Without weights it is some minutes; with many of them each is used in some hundred thousand positions.
TEST(BuildBudget, SmallFilesMayAskForLittle) {
  const auto budget = make_budget({}, product(8, 1));
  EXPECT_TRUE(takes_operations(*budget, 5e11));
  EXPECT_FALSE(takes_operations(*budget, 5.1e11));
  const auto large = make_budget({}, product(8, 10'000));  // 400 MB
  EXPECT_TRUE(takes_operations(*large, 3.39e14));
  EXPECT_FALSE(takes_operations(*large, 3.41e14));
}

// Products may be of inputs alone: attention over 4096 positions.
TEST(BuildBudget, LargeInputsAllowMore) {
  const auto budget = make_budget({}, product(10'000'000, 1));  // 40 MB
  EXPECT_TRUE(takes_operations(*budget, 1.29e12));
  EXPECT_FALSE(takes_operations(*budget, 1.31e12));
  EXPECT_FALSE(takes_operations(*make_budget({}, product(1'000'000'000, 1)), 2.1e12));
}

TEST(BuildBudget, OptionsDecide) {
  BuildOptions options;
  options.max_memory = 1000;
  options.max_operations = 2000;
  const auto budget = make_budget(options, product(8, 100));
  EXPECT_TRUE(takes_bytes(*budget, 1000));
  EXPECT_FALSE(takes_bytes(*budget, 1001));
  EXPECT_TRUE(takes_operations(*budget, 2000));
  EXPECT_FALSE(takes_operations(*budget, 2001));
}

TEST(BuildBudget, LooksAheadAtTheSizesThatAreVerified) {
  BuildOptions options;
  options.max_operations = 3e9;  // 2 · rows · 10^6, and the bytes
  const auto refusal = [&](const Dim& rows) -> std::string {
    const Graph model = product(rows, 1000);
    try {
      check_operations(model, options, *make_budget(options, model));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(1000), "");
  const std::string text = refusal(2000);
  EXPECT_NE(text.find("running the model once, node 'the product' with 4"), std::string::npos) << text;
  EXPECT_EQ(refusal(Dim::symbol("n")), "");
  options.profiles = {{{{"x", {{1, 1000}, {2000, 1000}, {9000, 1000}}}}}};
  EXPECT_NE(refusal(Dim::symbol("n")).find("node 'the product'"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::build_budget_test

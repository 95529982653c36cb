// At which sizes a model is verified whose inputs leave them open.
#include "builder/verification_sample.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/thread_pool.h"
#include "base/work_scope.h"
#include "ir/ops/graph_text.h"

namespace camshaft::verification_sample_test {
namespace {

std::vector<Dims> shapes_of(const Graph& model, const SampleOptions& options = {}) {
  ThreadPool pool(1);
  const auto found = find_sample(model, options, pool);
  const auto* sample = std::get_if<VerificationSample>(&found);
  EXPECT_NE(sample, nullptr) << std::get<std::string>(found);
  return sample == nullptr ? std::vector<Dims>{} : sample->shapes;
}

TEST(FindSample, TakesSizesWithWhichOperandsFit) {
  // Positions of 21 tokens are added, a size that is not in the list.
  const Graph model = parse(R"(graph (%x: f32[n, s, 4], %first: f32[n, 1, 4]) {
    const %table: f32[1, 22, 4] = 0.5
    %all = concat {axis=1} (%first, %x)
    %y = pointwise {function=add} (%all, %table)
    return %y
  })");
  EXPECT_EQ(shapes_of(model), (std::vector<Dims>{{1, 21, 4}, {1, 1, 4}}));
}

// The nearest three rows of another table, which one row is too few for.
TEST(FindSample, TakesSeveralRowsWhereOneIsRefused) {
  const Graph model = parse(R"(graph (%a: f32[n, 4], %b: f32[m, 4]) {
    const %k: i64[1] = 3
    %turned = transpose {permutation=[1, 0]} (%b)
    %y = matmul (%a, %turned)
    %most, %places = top_k {axis=1} (%y, %k)
    return %most, %places
  })");
  EXPECT_EQ(shapes_of(model), (std::vector<Dims>{{37, 4}, {37, 4}}));
  SampleOptions settled;
  settled.symbols = {{"n", 5}};
  EXPECT_EQ(shapes_of(model, settled), (std::vector<Dims>{{5, 4}, {37, 4}}));
}

// Evaluations are what takes the time where everything is refused.
TEST(FindSample, TriesOtherIntegersOnlyWhereThereAreSome) {
  const auto operations = [](const std::string& inputs) {
    const Graph model = parse("graph (" + inputs + R"() {
      const %table: f32[2] = 0.5
      %e = pointwise {function=exp} (%x)
      %beyond = cast {to=i64} (%e)
      %y = gather {axis=0} (%table, %beyond)
      return %e, %y
    })");
    const auto budget = std::make_shared<Budget>(1e9, size_t{1} << 30, "", "");
    const Cancellation cancellation;
    const WorkScope counted(cancellation, budget);
    ThreadPool pool(1);
    EXPECT_TRUE(std::holds_alternative<std::string>(find_sample(model, {}, pool)));
    return budget->operations_taken();
  };
  EXPECT_GT(operations("%x: f32[64]"), 0);
  EXPECT_EQ(3 * operations("%x: f32[64]"), operations("%x: f32[64], %i: i64[2]"));
}

VerificationSample found(const std::string& text, const SampleOptions& options) {
  const Graph model = parse(text);
  ThreadPool pool(1);
  return std::get<VerificationSample>(find_sample(model, options, pool));
}

bool has_finite(const Tensor& tensor) {
  for (const double v : tensor.to_doubles())
    if (std::isfinite(v)) return true;
  return false;
}

// Logarithms of four numbers, all of which are negative for one seed of 16.
TEST(FindSample, DrawsOtherNumbersWhereNoneIsFinite) {
  const std::string log = "graph (%x: f32[4]) {\n%y = pointwise {function=log} (%x)\nreturn %y\n}";
  int others = 0;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    SampleOptions options;
    options.seed = seed;
    const VerificationSample sample = found(log, options);
    EXPECT_TRUE(has_finite(sample.expected[0])) << seed;
    EXPECT_EQ(sample.drawn, "");
    others += sample.seed == seed ? 0 : 1;
  }
  EXPECT_GT(others, 0);
  EXPECT_LT(others, 20);
}

// A budget that has room for one evaluation has enough: what others take does not count.
TEST(FindSample, FurtherTriesDoNotCount) {
  const std::string root =
      "graph (%x: f32[4]) {\n%y = pointwise {function=sqrt} (%x)\n"
      "%z = pointwise {function=exp} (%y)\nreturn %y, %z\n}";
  const auto taken = [&](uint64_t seed, double most) {
    const auto budget = std::make_shared<Budget>(most, size_t{1} << 30, "", "");
    const Cancellation cancellation;
    const WorkScope counted(cancellation, budget);
    SampleOptions options;
    options.seed = seed;
    found(root, options);
    return budget->operations_taken();
  };
  const double once = taken(0, 1e9);
  EXPECT_GT(once, 0);
  for (uint64_t seed = 0; seed < 64; ++seed) EXPECT_EQ(taken(seed, once), once) << seed;
}

// With any negative number of 3000 the sum is none.
TEST(FindSample, DrawsPositiveNumbersAndOnesBelowAndAboveOne) {
  const auto drawn = [](const std::string& function) {
    const VerificationSample sample = found("graph (%x: f32[3000]) {\n%f = pointwise {function=" + function +
                                                "} (%x)\n%y = reduce {kind=sum, axes=[0]} (%f)\nreturn %y\n}",
                                            {});
    EXPECT_TRUE(has_finite(sample.expected[0])) << function;
    return sample.drawn;
  };
  EXPECT_EQ(drawn("exp"), "");
  EXPECT_EQ(drawn("log"), "positive numbers");
  EXPECT_EQ(drawn("sqrt"), "positive numbers");
  EXPECT_EQ(drawn("asin"), "numbers between 0 and 1");
  EXPECT_EQ(drawn("acosh"), "numbers above 1");
}

TEST(FindSample, KeepsToTheListWhereItFits) {
  const Graph model = parse(R"(graph (%x: f32[n, s, 4], %y: f32[n, s, 4]) {
    %z = pointwise {function=add} (%x, %y)
    return %z
  })");
  EXPECT_EQ(shapes_of(model), (std::vector<Dims>{{1, 64, 4}, {1, 64, 4}}));
}

}  // namespace
}  // namespace camshaft::verification_sample_test

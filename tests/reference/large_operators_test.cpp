// Operators over millions of elements ask often enough whether they are to stop. What is counted is how often they ask
// for the elements that they read and write, not time.
#include "reference/large_operators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/cancellation_points.h"
#include "base/thread_pool.h"
#include "ir/ops/strings.h"
#include "reference/operator_samples.h"
#include "reference/single_op.h"

namespace camshaft::large_operators_test {
namespace {

// An element takes some nanoseconds, a text some ten: this is some 10 ms.
constexpr int64_t most_between = 1 << 20;

int64_t elements_of(const std::vector<Tensor>& tensors) {
  int64_t count = 0;
  for (const Tensor& t : tensors)
    if (t.defined()) count += t.size();
  return count;
}

TEST(LargeOperators, AskWhetherTheyAreToStop) {
  ThreadPool pool(1);
  std::set<std::string> seen(std::begin(no_loops), std::end(no_loops));
  for (const samples_detail::SampleText& text : large_operators) {
    SCOPED_TRACE(text.nodes);
    const LargeSample sample(text, pool);
    seen.insert(std::string(sample.node().op.name()));
    const int64_t before = cancellation_points_passed();
    const std::vector<Tensor> results = sample.evaluate(pool);
    const int64_t asked = cancellation_points_passed() - before;
    const int64_t elements = std::max(elements_of(sample.operands()), elements_of(results));
    EXPECT_GE(elements, most_between) << "the sample is too small";
    EXPECT_GE(asked * most_between, elements) << "asked " << asked << " times";
  }
  for (const std::string& name : operators().names())
    EXPECT_TRUE(seen.contains(name)) << name << " has no large sample";
}

// One of 150 MB was split for ten seconds after Ctrl-C.
TEST(LargeOperators, AskWithinATextOfManyParts) {
  constexpr int64_t parts = int64_t{1} << 22;
  const Tensor text = Tensor::of<std::string>(DType::string, {1}, {std::string(parts - 1, ',')});
  const int64_t before = cancellation_points_passed();
  const std::vector<Tensor> results = run_op(ops::StringSplit{","}, {text});
  EXPECT_EQ(results[0].dims(), (Dims{1, parts}));
  EXPECT_GE((cancellation_points_passed() - before) * most_between, parts);
}

}  // namespace
}  // namespace camshaft::large_operators_test

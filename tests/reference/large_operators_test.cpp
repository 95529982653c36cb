// Operators over millions of elements ask often enough whether they are to stop. What is counted is how often they ask
// for the elements that they read and write, not time.
#include "reference/large_operators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/cancellation_points.h"
#include "base/thread_pool.h"
#include "reference/operator_samples.h"

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

}  // namespace
}  // namespace camshaft::large_operators_test

// At which sizes a model is verified whose inputs leave them open.
#include "builder/verification_sample.h"

#include <gtest/gtest.h>

#include "base/thread_pool.h"
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

TEST(FindSample, KeepsToTheListWhereItFits) {
  const Graph model = parse(R"(graph (%x: f32[n, s, 4], %y: f32[n, s, 4]) {
    %z = pointwise {function=add} (%x, %y)
    return %z
  })");
  EXPECT_EQ(shapes_of(model), (std::vector<Dims>{{1, 64, 4}, {1, 64, 4}}));
}

}  // namespace
}  // namespace camshaft::verification_sample_test

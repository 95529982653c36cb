#include "builder/precision_gains.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "base/work_scope.h"
#include "builder/optimize_model.h"
#include "ir/ops/operators.h"
#include "ir/text.h"
#include "runtime/backends.h"

namespace camshaft::precision_gains_test {
namespace {

std::vector<PrecisionGain> gains_of(const std::string& text, bool on_a_sample = false,
                                    std::chrono::milliseconds time_for_error = std::chrono::hours(1)) {
  ThreadPool pool(1);
  const std::shared_ptr<const Backend> backend = find_backend("cpu");
  BuildOptions options;
  options.verify = false;
  ModelOptimizer optimizer(options, *backend, pool);
  Graph model = parse_graph(text, operators());
  optimizer.settle_meaning(model);
  VerificationSample sample;
  if (on_a_sample) sample = std::get<VerificationSample>(find_sample(model, {}, pool));
  return precision_gains(options, backend, model, optimizer.run(model, std::nullopt, {}).graph, {},
                         on_a_sample ? &sample : nullptr, pool, time_for_error);
}

bool has(const std::vector<PrecisionGain>& gains, const std::string& precision) {
  return std::any_of(gains.begin(), gains.end(),
                     [&](const PrecisionGain& gain) { return gain.precision == precision && gain.speedup >= 1.1; });
}

TEST(PrecisionGains, ProductsGainFromWhatTheBackendGainsFrom) {
  const std::vector<PrecisionGain> gains = gains_of(R"(graph "g" (%x: f32[256, 1024]) {
    const %w: f32[1024, 1024] = 0.125
    %y = matmul (%x, %w)
    return "y" = %y
  })");
  const std::shared_ptr<const Backend> backend = find_backend("cpu");
  EXPECT_EQ(has(gains, "int8"), backend->gains_from(DType::i8));
  EXPECT_EQ(has(gains, "bf16"), backend->gains_from_rounding(ops::Rounding::bf16));
  EXPECT_LE(gains.size(), 2);
}

TEST(PrecisionGains, WhatAPrecisionCostsIsMeasuredOnASample) {
  const char* const model = R"(graph "g" (%x: f32[256, 1024]) {
    const %w: f32[1024, 1024] = 0.1234567
    %y = matmul (%x, %w)
    return "y" = %y
  })";
  for (const PrecisionGain& gain : gains_of(model)) EXPECT_FALSE(gain.error.has_value());
  for (const PrecisionGain& gain : gains_of(model, true)) {
    // Each operand is rounded to 8 bits: by 2^-9 of itself at most, or by half a step of the largest one's 256.
    ASSERT_TRUE(gain.error.has_value()) << gain.precision;
    EXPECT_GT(*gain.error, 1e-5);
    EXPECT_LT(*gain.error, gain.precision == "int8" ? 0x1p-5 : 0x1p-7);
  }
}

// The gains themselves are the cost model's: they are there all the same, and the build goes on.
TEST(PrecisionGains, WhatItCostsIsLeftOutWhereThatTakesLong) {
  const char* const model = R"(graph "g" (%x: f32[256, 1024]) {
    const %w: f32[1024, 1024] = 0.1234567
    %y = matmul (%x, %w)
    return "y" = %y
  })";
  const std::vector<PrecisionGain> gains = gains_of(model, true, std::chrono::milliseconds(0));
  EXPECT_EQ(gains.size(), gains_of(model).size());
  for (const PrecisionGain& gain : gains) EXPECT_FALSE(gain.error.has_value()) << gain.precision;
  EXPECT_NO_THROW(cancellation_point());
}

// What is cancelled is the build, then, and not the hint.
TEST(PrecisionGains, TheBuildsOwnCancellationIsNoTimeLimit) {
  Cancellation cancellation;
  const WorkScope scope(cancellation);
  cancellation.cancel();
  EXPECT_THROW(gains_of(R"(graph "g" (%x: f32[256, 1024]) {
    const %w: f32[1024, 1024] = 0.1234567
    %y = matmul (%x, %w)
    return "y" = %y
  })",
                        true),
               Error);
}

TEST(PrecisionGains, WhatComputesNoProductsGainsNothing) {
  EXPECT_TRUE(gains_of(R"(graph "g" (%x: f32[256, 1024]) {
    %y = pointwise {function=tanh} (%x)
    return "y" = %y
  })")
                  .empty());
}

}  // namespace
}  // namespace camshaft::precision_gains_test

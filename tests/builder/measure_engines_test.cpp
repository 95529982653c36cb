#include "builder/measure_engines.h"

#include <gtest/gtest.h>

#include "builder/compile_graph.h"
#include "ir/ops/operators.h"
#include "ir/text.h"
#include "runtime/backends.h"

namespace camshaft::measure_engines_test {
namespace {

Engine engine_of(int64_t rows) {
  Graph graph = parse_graph("graph \"g\" (%x: f32[" + std::to_string(rows) + R"(, 64]) {
    const %w: f32[64, 64] = 0.125
    %a = matmul (%x, %w)
    %y = softmax {axis=1} (%a)
    return "y" = %y
  })",
                            operators());
  return compile_graph(std::move(graph), find_backend("cpu"));
}

TEST(MeasureEngines, GivesTheTimesOfEachAndOfItsLayers) {
  const Engine engine = engine_of(16), same = engine_of(16);
  const Tensor x(DType::f32, {16, 64});
  const std::vector<EngineTimes> times = measure_engines({&engine, &same}, {x}, 1, 0.05, {});
  ASSERT_EQ(times.size(), 2);
  for (const EngineTimes& t : times) {
    EXPECT_GT(t.seconds, 0);
    EXPECT_LT(t.seconds, 10);
    ASSERT_EQ(t.layers.size(), engine.layers().size());
    for (const LayerTime& layer : t.layers) EXPECT_GE(layer.seconds, 0) << layer.name;
  }
}

TEST(MeasureEngines, CanBeCancelled) {
  const Engine engine = engine_of(16);
  Cancellation cancellation;
  cancellation.cancel();
  try {
    measure_engines({&engine}, {Tensor(DType::f32, {16, 64})}, 1, 10, cancellation);
    FAIL() << "measured";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::cancelled);
  }
}

TEST(MeasureEngines, ThrowsWhatARunThrows) {
  const Engine engine = engine_of(16);
  EXPECT_THROW(measure_engines({&engine}, {Tensor(DType::f32, {8, 64})}, 1, 0.01, {}), Error);
}

}  // namespace
}  // namespace camshaft::measure_engines_test

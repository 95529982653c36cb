// Runs again and again, as a device records them: other data, shapes and memory each time, and step by step between.
#include "runtime/recorded_steps.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "reference/random_tensor.h"
#include "runtime/profiler.h"
#include "runtime/support.h"

namespace camshaft::recorded_steps_test {
namespace {

constexpr std::string_view model = R"(graph (%x: f32[n, 24], %y: f32[n, 24]) {
  const %w: f32[24, 16] = 0.25
  const %two: f32[] = 2
  %a = pointwise {function=add} (%x, %y)
  %s = softmax {axis=1} (%a)
  %m = matmul (%s, %w)
  %t = transpose {permutation=[1, 0]} (%m)
  %b = pointwise {function=mul} (%t, %two)
  %r = reduce {kind=sum, axes=[0], keep_dims=false} (%b)
  return "b" = %b, "r" = %r
})";

void expect_close(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.dims(), expected.dims());
  const std::vector<double> a = actual.to_doubles(), e = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], 1e-4 * std::max(1.0, std::abs(e[i]))) << i;
}

TEST(RecordedSteps, ManyRuns) {
  Random random = test_random();
  const Engine engine = engine_from(model);
  Context context = engine.create_context({1});
  const Graph graph = parse_graph(model, operators());
  ThreadPool pool(1);
  Profiler profiler;
  std::vector<float> bound(16 * 7);
  int taps = 0;
  for (int round = 0; round < 30; ++round) {
    const int64_t n = round < 10 ? 4 : random.integer(1, 7);
    const std::vector<Tensor> inputs = {random_tensor(random, DType::f32, {n, 24}),
                                        random_tensor(random, DType::f32, {n, 24})};
    set_inputs(context, engine, inputs);
    const bool binds = round % 7 == 3, profiles = round % 5 == 4, tapped = round % 6 == 5;
    context.bind_output("b", binds ? bound.data() : nullptr, bound.size() * sizeof(float));
    context.set_profiler(profiles ? &profiler : nullptr);
    context.set_tap("m", nullptr);
    if (tapped) context.set_tap("m", [&](const TensorView& view) { taps += view.dims[0] == n; });
    context.run();
    const std::vector<Tensor> expected = evaluate(graph, inputs, pool);
    SCOPED_TRACE(round);
    expect_close(output_of(context, "b"), expected[0]);
    expect_close(output_of(context, "r"), expected[1]);
  }
  EXPECT_EQ(taps, 5);
  ASSERT_EQ(profiler.layers().size(), engine.layers().size());
  for (const LayerTime& layer : profiler.layers()) {
    EXPECT_EQ(layer.runs, 6) << layer.name;
    EXPECT_GE(layer.seconds, 0) << layer.name;
  }
  EXPECT_GT(profiler.total_seconds(), 0);
}

// Each layer's time is its own: what comes before it on the device, and a run's wait at its end, are not.
TEST(RecordedSteps, ProfiledTimesAreOfLayersAlone) {
  Random random = test_random();
  const Engine engine = engine_from(model);
  Context context = engine.create_context({1});
  const std::vector<Tensor> inputs{random_tensor(random, DType::f32, {6, 24}),
                                   random_tensor(random, DType::f32, {6, 24})};
  set_inputs(context, engine, inputs);
  for (int round = 0; round < 4; ++round) {
    Profiler profiler;
    context.set_profiler(&profiler);
    const auto start = std::chrono::steady_clock::now();
    context.run();
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
    EXPECT_GT(profiler.total_seconds(), 0);
    EXPECT_LE(profiler.total_seconds(), all.count());
  }
}

TEST(RecordedSteps, ContextsInParallel) {
  Random random = test_random();
  const Engine engine = engine_from(model);
  const std::vector<Tensor> inputs = {random_tensor(random, DType::f32, {5, 24}),
                                      random_tensor(random, DType::f32, {5, 24})};
  ThreadPool pool(1);
  const Tensor expected = evaluate(parse_graph(model, operators()), inputs, pool)[0];
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      Context context = engine.create_context({1});
      set_inputs(context, engine, inputs);
      for (int round = 0; round < 10; ++round) context.run();
      expect_close(output_of(context, "b"), expected);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace camshaft::recorded_steps_test

// Engines for a GPU whose weights come in from the host's memory. Without a GPU the emulated one runs these, whose
// graphs take copies now as early as the edges allow, now as late: scripts/emulate_gpu.sh.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "backends/cuda/driver/recording.h"
#include "backends/cuda/libraries/libraries.h"
#include "base/temporary_folder.h"
#include "reference/random_tensor.h"
#include "runtime/engine_impl.h"
#include "runtime/profiler.h"
#include "runtime/streamed_weights.h"
#include "runtime/support.h"

namespace camshaft::device_weight_stream_test {
namespace {

constexpr int64_t layers = 24;

// A row of products, a table that is read at the begin and at the end, and small constants that all layers read.
std::string model_text(int64_t width) {
  std::string text = fmt::format("graph \"deep\" (%x: f32[n, {0}]) {{\n  const %t: f32[{0}, {0}] = 0.5\n", width);
  for (int i = 0; i < layers; ++i) text += fmt::format("  const %w{}: f32[{}, {}] = 0.5\n", i, width, width);
  text += fmt::format("  const %b: f32[{}] = 0.25\n  const %zero: f32[] = 0\n", width);
  text += "  %h0 = pointwise {function=max} (%x, %zero)\n  %a = matmul (%h0, %t)\n  %r0 = softmax {axis=1} (%a)\n";
  for (int i = 0; i < layers; ++i) {
    text += fmt::format("  %m{0} = matmul (%r{0}, %w{0}) from \"MatMul_{0}\"\n", i);
    text += fmt::format("  %s{0} = softmax {{axis=1}} (%m{0})\n", i);
    text += fmt::format("  %r{} = pointwise {{function=add}} (%s{}, %b)\n", i + 1, i);
  }
  text += fmt::format("  %y = matmul (%r{}, %t)\n  return \"y\" = %y\n}}", layers);
  return text;
}

class DeviceStreaming : public ::testing::Test {
 protected:
  void SetUp() override {
    backend_ = test_backend();
    if (backend_->device().kind != "cuda")
      GTEST_SKIP() << "needs CAMSHAFT_TEST_DEVICE=cuda and a GPU, or scripts/emulate_gpu.sh";
    width_ = backend_->make_queue()->block_granularity() > size_t{1} << 20 ? 1280 : 300;  // a few blocks a layer
    Graph graph = parse_graph(model_text(width_), operators());
    for (Value& v : graph.values)
      if (v.constant && !v.constant->dims().empty())
        v.constant = std::make_shared<const Tensor>(random_tensor(random_, DType::f32, v.constant->dims()));
    const Engine built = compile_graph(graph, backend_);
    expected_ = run_engine(built, inputs(3))[0];
    built.save(path());
  }
  std::vector<Tensor> inputs(int64_t rows) const {
    Random random(7);
    return {random_tensor(random, DType::f32, {rows, width_})};
  }
  std::string path() const { return folder_.file("e.engine"); }
  Engine load(const std::string& budget) const { return Engine::load(path(), {.device = "", .weight_budget = budget}); }
  static std::string failure(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing failed";
  }

  std::shared_ptr<const Backend> backend_;
  int64_t width_ = 0;
  Random random_ = test_random();
  TemporaryFolder folder_;
  Tensor expected_;
};

TEST_F(DeviceStreaming, ResultsAreTheSameWithAnyBudget) {
  const WeightStreaming facts = load("").weight_streaming();
  const int64_t layer = width_ * width_ * 4;
  EXPECT_EQ(facts.budget, -1);
  EXPECT_EQ(facts.streamable_bytes, facts.weight_bytes);
  EXPECT_EQ(facts.staying_bytes, facts.weight_bytes);
  EXPECT_GE(facts.weight_bytes, (layers + 1) * layer);
  EXPECT_LT(facts.weight_bytes, (layers + 2) * layer);
  EXPECT_LT(facts.least_budget, 5 * layer);  // two layers and the table
  for (const std::string& budget : {std::to_string(facts.least_budget), std::string("25%"), std::string("50%"),
                                    std::string("75%"), std::string("100%"), std::string("none"), std::string("1TB")}) {
    const Engine engine = load(budget);
    Context context = engine.create_context();
    const std::vector<Tensor> x = inputs(3);
    set_inputs(context, engine, x);
    for (int run = 0; run < 5; ++run) {  // by steps, recorded, and from the recording
      context.run();
      EXPECT_EQ(output_of(context, "y"), expected_) << budget << ", run " << run;
    }
  }
}

TEST_F(DeviceStreaming, FiguresSayWhatComesIn) {
  const Engine engine = load("50%");
  const WeightStreaming before = engine.weight_streaming();
  EXPECT_LE(before.staying_bytes + before.window_bytes, before.budget);
  EXPECT_GE(before.loads_bytes, before.weight_bytes - before.staying_bytes);
  EXPECT_EQ(before.brought_bytes, before.staying_bytes);
  const std::vector<Tensor> x = inputs(3);
  Context context = engine.create_context();
  set_inputs(context, engine, x);
  constexpr int runs = 4;
  for (int run = 0; run < runs; ++run) context.run();
  EXPECT_EQ(engine.weight_streaming().brought_bytes, before.staying_bytes + runs * before.loads_bytes);
  int64_t streamed = 0;
  for (const LayerInfo& each : engine.layers()) streamed += each.streamed_bytes;
  EXPECT_GE(streamed, before.loads_bytes);
}

TEST_F(DeviceStreaming, NoMoreThanTheBudgetIsOnTheDevice) {
  const auto queue = backend_->make_queue();
  const int64_t free = queue->free_bytes();
  const Engine engine = load("50%");
  const int64_t taken = free - queue->free_bytes(), kernels = 1 << 20;
  EXPECT_LE(taken, engine.weight_streaming().budget + kernels);
  EXPECT_GT(taken, engine.weight_streaming().staying_bytes);
}

TEST_F(DeviceStreaming, WhatDoesNotFitTheDeviceRunsWithABudget) {
  if (backend_->device().name.find("mulated") == std::string::npos) GTEST_SKIP() << "the emulator's memory can be set";
  const WeightStreaming facts = load("").weight_streaming();
  const auto queue = backend_->make_queue();
  const int64_t used = backend_->device().memory_bytes - queue->free_bytes();
  setenv("CAMSHAFT_EMULATED_MEMORY", std::to_string(used + facts.weight_bytes * 3 / 4).c_str(), 1);
  EXPECT_NE(failure([&] { load(""); }).find("out of memory"), std::string::npos);
  EXPECT_NE(failure([&] { load("90%"); }).find("out of memory"), std::string::npos);
  const WeightStreaming automatic = load("auto").weight_streaming();
  EXPECT_LT(automatic.budget, facts.weight_bytes * 3 / 4);
  EXPECT_GT(automatic.budget, facts.weight_bytes / 2);
  const Engine engine = load("auto");
  EXPECT_EQ(run_engine(engine, inputs(3))[0], expected_);
  unsetenv("CAMSHAFT_EMULATED_MEMORY");
}

TEST_F(DeviceStreaming, WhoLooksOnSeesTheSame) {
  const Engine engine = load("25%");
  const std::vector<Tensor> x = inputs(3);
  Context context = engine.create_context();
  set_inputs(context, engine, x);
  Profiler profiler;
  context.set_profiler(&profiler);
  for (int run = 0; run < 3; ++run) {
    context.run();
    EXPECT_EQ(output_of(context, "y"), expected_);
  }
  context.set_profiler(nullptr);
  int seen = 0;
  context.set_tap("r5", [&](const TensorView&) { ++seen; });
  for (int run = 0; run < 2; ++run) {
    context.run();
    EXPECT_EQ(output_of(context, "y"), expected_);
  }
  EXPECT_EQ(seen, 2);
}

TEST_F(DeviceStreaming, OtherShapesAndOtherMemoryEachTime) {
  const Engine whole = load(""), engine = load("25%");
  Context context = engine.create_context();
  std::vector<std::vector<Tensor>> kept;
  for (const int64_t rows : {1, 5, 1, 3, 5, 3, 3, 3, 1, 5}) {
    kept.push_back(inputs(rows));
    set_inputs(context, engine, kept.back());
    context.run();
    EXPECT_EQ(output_of(context, "y"), run_engine(whole, kept.back())[0]) << rows;
  }
}

TEST_F(DeviceStreaming, TheBudgetMayChangeBetweenRuns) {
  const Engine engine = load("");
  const std::vector<Tensor> x = inputs(3);
  Context context = engine.create_context();
  set_inputs(context, engine, x);
  for (const char* budget : {"60%", "25%", "", "auto", "50%", "none"}) {
    engine.set_weight_budget(budget);
    for (int run = 0; run < 3; ++run) {
      context.run();
      EXPECT_EQ(output_of(context, "y"), expected_) << budget;
    }
  }
  engine.set_weight_budget("50%");
  const WeightStreaming before = engine.weight_streaming();
  const std::string message = failure([&] { engine.set_weight_budget("1"); });
  EXPECT_NE(message.find(fmt::format("give {} bytes", before.least_budget)), std::string::npos) << message;
  EXPECT_EQ(engine.weight_streaming().budget, before.budget);
  context.run();
  EXPECT_EQ(output_of(context, "y"), expected_);
  EXPECT_NE(failure([&] { load(std::to_string(before.least_budget - 1)); }).find("too small"), std::string::npos);
}

TEST_F(DeviceStreaming, ContextsTakeTurns) {
  const Engine engine = load("25%");
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      const std::vector<Tensor> x = inputs(3);
      Context context = engine.create_context();
      set_inputs(context, engine, x);
      for (int run = 0; run < 4; ++run) {
        context.run();
        if (output_of(context, "y") == expected_) ++right;
        if (run == 2) engine.set_weight_budget("50%");
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 12);
}

TEST_F(DeviceStreaming, RunsWithinRunsAreRefusedAndCancelledOnesAreFollowed) {
  const Engine engine = load("25%");
  const std::vector<Tensor> x = inputs(3);
  Context outer = engine.create_context(), inner = engine.create_context();
  set_inputs(outer, engine, x);
  set_inputs(inner, engine, x);
  outer.set_tap("r1", [&](const TensorView&) { inner.run(); });
  EXPECT_NE(failure([&] { outer.run(); }).find("take turns"), std::string::npos);
  Cancellation cancellation;
  outer.set_cancellation(cancellation);
  outer.set_tap("r1", [&](const TensorView&) { cancellation.cancel(); });
  EXPECT_NE(failure([&] { outer.run(); }).find("cancelled"), std::string::npos);
  outer.set_cancellation({});
  outer.set_tap("r1", {});
  for (int run = 0; run < 3; ++run) {
    outer.run();
    EXPECT_EQ(output_of(outer, "y"), expected_);
  }
}

TEST_F(DeviceStreaming, StreamsOfTheCaller) {
  const cuda::Device device(cuda::driver_library().functions, 0);
  const cuda::Stream first(device), second(device);
  const Engine engine = load("25%");
  const std::vector<Tensor> x = inputs(3);
  Context a = engine.create_context(), b = engine.create_context();
  set_inputs(a, engine, x);
  set_inputs(b, engine, x);
  for (int run = 0; run < 4; ++run) {  // nobody waits in between
    a.enqueue(first.handle());
    b.enqueue(second.handle());
  }
  a.synchronize();
  b.synchronize();
  EXPECT_EQ(output_of(a, "y"), expected_);
  EXPECT_EQ(output_of(b, "y"), expected_);
  cuda::Recording::begin(first);
  const std::string message = failure([&] { a.enqueue(first.handle()); });
  EXPECT_NE(message.find("take the budget away"), std::string::npos) << message;
  static_cast<void>(cuda::Recording(first));
  a.run();
  EXPECT_EQ(output_of(a, "y"), expected_);
}

// Recordings, single steps that are not recorded, and steps of the host by turns.
TEST_F(DeviceStreaming, StepsOfTheHostInBetween) {
  std::string text = fmt::format("graph \"mixed\" (%c: bool[], %r0: f32[4, {0}]) {{\n", width_);
  constexpr int count = 16;
  for (int i = 0; i < count; ++i) text += fmt::format("  const %w{0}: f32[{1}, {1}] = 0.5\n", i, width_);
  for (int i = 0; i < count; ++i) {
    text += fmt::format("  %m{0} = matmul (%r{0}, %w{0})\n", i);
    const bool is_on_host = i % 4 == 1 || i % 4 == 2;  // behind two recorded steps, and behind a single one
    if (!is_on_host) {
      text += fmt::format("  %r{} = softmax {{axis=1}} (%m{})\n", i + 1, i);
      continue;
    }
    const auto branch = [&](const char* name, const char* function) {
      return fmt::format(
          "    graph \"{0}\" (%a: f32[4, {1}]) {{\n      const %k: f32[] = 0.5\n      %o = pointwise {{function={2}}} "
          "(%a, %k)\n      return \"o\" = %o\n    }}\n",
          name, width_, function);
    };
    text += fmt::format("  %r{} = if {{}} (%c, %m{})\n{}{}", i + 1, i, branch("then", "mul"), branch("else", "add"));
  }
  text += fmt::format("  return \"y\" = %r{}\n}}", count);
  Graph graph = parse_graph(text, operators());
  for (Value& v : graph.values)
    if (v.constant && !v.constant->dims().empty())
      v.constant = std::make_shared<const Tensor>(random_tensor(random_, DType::f32, v.constant->dims()));
  const Engine engine = compile_graph(graph, backend_);
  const std::vector<Tensor> x = {Tensor::of<uint8_t>(DType::boolean, {}, {1}),
                                 random_tensor(random_, DType::f32, {4, width_})};
  const Tensor expected = run_engine(engine, x)[0];
  for (const char* budget : {"25%", "60%"}) {
    engine.set_weight_budget(budget);
    Context context = engine.create_context();
    set_inputs(context, engine, x);
    for (int run = 0; run < 5; ++run) {
      context.run();
      EXPECT_EQ(output_of(context, "y"), expected) << budget << ", run " << run;
    }
    // A run that goes step by step, and one that ends early, leave other things in the window.
    Cancellation cancellation;
    context.set_cancellation(cancellation);
    context.set_tap("m7", [&](const TensorView&) { cancellation.cancel(); });
    EXPECT_NE(failure([&] { context.run(); }).find("cancelled"), std::string::npos);
    context.set_cancellation({});
    context.set_tap("m7", {});
    for (int run = 0; run < 2; ++run) {
      context.run();
      EXPECT_EQ(output_of(context, "y"), expected) << budget;
    }
  }
}

TEST_F(DeviceStreaming, EnginesInMemory) {
  Graph graph = parse_graph(model_text(width_), operators());
  const Engine built = compile_graph(graph, backend_);
  const Tensor before = run_engine(built, inputs(3))[0];
  EXPECT_GT(built.weight_streaming().least_budget, 0);
  built.set_weight_budget("50%");
  EXPECT_EQ(run_engine(built, inputs(3))[0], before);
  EXPECT_GT(built.weight_streaming().brought_bytes, built.weight_streaming().staying_bytes);
  built.save(folder_.file("again.engine"));
  EXPECT_EQ(run_engine(Engine::load(folder_.file("again.engine")), inputs(3))[0], before);
}

TEST_F(DeviceStreaming, FarWeightsStayAndNeighboursShareBlocks) {
  const Engine engine = load("");
  const StreamableWeights weights(*engine.impl());
  const WeightBlocks& blocks = weights.blocks();
  const StreamingPlan plan = weights.plan(weights.least_budget());
  const std::vector<int32_t> places = places_in_window(blocks.steps, plan);
  std::vector<uint32_t> before;
  for (const std::vector<uint32_t>& step : blocks.steps) {
    std::vector<int32_t> taken;
    std::vector<uint32_t> now;
    for (const uint32_t block : step)
      if (places[block] >= 0) now.push_back(block);
    if (now.empty()) continue;
    std::set<uint32_t> both(before.begin(), before.end());
    both.insert(now.begin(), now.end());
    std::set<int32_t> different;
    for (const uint32_t block : both) different.insert(places[block]);
    EXPECT_EQ(different.size(), both.size());
    before = now;
  }
  for (size_t b = 0; b < places.size(); ++b) EXPECT_EQ(places[b] < 0, plan.stays[b]) << b;
}

}  // namespace
}  // namespace camshaft::device_weight_stream_test

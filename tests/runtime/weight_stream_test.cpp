// Engines whose weights come in from their file.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/expect_in_child.h"
#include "base/temporary_folder.h"
#include "engine/engine_file.h"
#include "reference/random_tensor.h"
#include "runtime/engine_impl.h"
#include "runtime/refitter.h"
#include "runtime/streamed_weights.h"
#include "runtime/support.h"

namespace camshaft::weight_stream_test {
namespace {

constexpr int64_t width = 300, layers = 16;
constexpr int64_t layer_bytes = width * width * 4;

// A row of products, a table that is read at the begin and at the end, and a loop with weights of its own.
std::string model_text() {
  std::string text = fmt::format("graph \"deep\" (%x: f32[n, {0}]) {{\n  const %t: f32[{0}, {0}] = 0.5\n", width);
  for (int i = 0; i < layers; ++i) text += fmt::format("  const %w{}: f32[{}, {}] = 0.5\n", i, width, width);
  text += "  const %zero: f32[] = 0\n  %h0 = pointwise {function=max} (%x, %zero)\n";
  text += "  %a = matmul {transpose_b=true} (%h0, %t)\n";
  text += "  %r0 = softmax {axis=1} (%a)\n";
  for (int i = 0; i < layers; ++i) {
    text += fmt::format("  %m{} = matmul (%r{}, %w{}) from \"MatMul_{}\"\n", i, i, i, i);
    text += fmt::format("  %r{} = softmax {{axis=1}} (%m{})\n", i + 1, i);
  }
  text += fmt::format("  %y = matmul {{transpose_b=true}} (%r{}, %t)\n  return \"y\" = %y\n}}", layers);
  return text;
}

class Streaming : public ::testing::Test {
 protected:
  Streaming() : random_(test_random()) {
    Graph graph = parse_graph(model_text(), operators());
    for (Value& v : graph.values)
      if (v.constant && !v.constant->dims().empty())
        v.constant = std::make_shared<const Tensor>(random_tensor(random_, DType::f32, v.constant->dims()));
    inputs_ = {random_tensor(random_, DType::f32, {3, width})};
    const Engine built = compile_graph(graph, find_backend("cpu"));
    expected_ = run_engine(built, inputs_);
    built.save(path());
  }
  std::string path() const { return folder_.file("e.engine"); }
  Engine load(const std::string& budget) const { return Engine::load(path(), {.device = "", .weight_budget = budget}); }
  std::string failure(const std::function<void()>& call) const {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing failed";
  }

  Random random_;
  TemporaryFolder folder_;
  std::vector<Tensor> inputs_, expected_;
};

TEST_F(Streaming, ResultsAreTheSameWithAnyBudget) {
  const Engine whole = Engine::load(path());
  const WeightStreaming facts = whole.weight_streaming();
  EXPECT_EQ(facts.budget, -1);
  EXPECT_GE(facts.weight_bytes, (layers + 1) * layer_bytes);
  EXPECT_GE(facts.streamable_bytes, (layers + 1) * layer_bytes);
  EXPECT_LT(facts.least_budget, 4 * layer_bytes);
  for (const std::string& budget : {std::to_string(facts.least_budget), std::string("25%"), std::string("50%"),
                                    std::string("75%"), std::string("100%"), std::string("none"), std::string("1TB")}) {
    const Engine engine = load(budget);
    Context context = engine.create_context({.threads = 2});
    set_inputs(context, engine, inputs_);
    for (int run = 0; run < 3; ++run) {
      context.run();
      EXPECT_EQ(output_of(context, "y"), expected_[0]) << budget;
    }
  }
}

TEST_F(Streaming, NoMoreThanTheBudgetIsHere) {
  const int64_t least = load("none").weight_streaming().least_budget;
  const Engine engine = load(std::to_string(least));
  Context context = engine.create_context({.threads = 1});
  set_inputs(context, engine, inputs_);
  for (const std::string& name : engine.tensor_names())
    if (name.starts_with("r"))
      context.set_tap(name,
                      [&](const TensorView&) { EXPECT_LE(engine.impl()->stream->counts().resident_bytes, least); });
  context.run();
  context.run();
  const WeightStreaming now = engine.weight_streaming();
  EXPECT_EQ(now.budget, least);
  EXPECT_LE(now.staying_bytes + now.window_bytes, least + 65536);  // constants that are in memory anyway
  EXPECT_GE(now.loads_bytes, now.streamable_bytes - now.staying_bytes);
  EXPECT_GT(now.brought_bytes, now.loads_bytes * 3 / 2);                  // blocks that two layers share come in once
  EXPECT_LE(now.brought_bytes, now.staying_bytes + now.loads_bytes * 3);  // a third run may have begun
}

TEST_F(Streaming, WhatFitsIsReadOnce) {
  const Engine engine = load("95%");
  Context context = engine.create_context({.threads = 1});
  set_inputs(context, engine, inputs_);
  for (int run = 0; run < 5; ++run) context.run();
  const WeightStreaming now = engine.weight_streaming();
  EXPECT_GT(now.staying_bytes, now.weight_bytes / 2);
  EXPECT_LE(now.brought_bytes, now.staying_bytes + 6 * now.loads_bytes);
}

TEST_F(Streaming, ALayersRecordSaysWhatItReads) {
  const Engine engine = load("50%");
  int64_t bytes = 0, streamed = 0;
  for (const LayerInfo& layer : engine.layers()) {
    size_t large = 0;
    for (const LayerWeight& weight : layer.weights) {
      if (weight.bytes < 1000) continue;  // in the file's graph
      ++large;
      bytes += weight.bytes;
      EXPECT_GE(weight.offset, 0) << weight.name;
    }
    streamed += layer.streamed_bytes;
    EXPECT_EQ(large, layer.op == "matmul" ? 1u : 0u) << layer.name;
  }
  EXPECT_GE(bytes, (layers + 2) * layer_bytes);  // the table is read twice
  EXPECT_GE(streamed, engine.weight_streaming().loads_bytes);
  EXPECT_GT(streamed, 0);
}

TEST_F(Streaming, ABudgetThatIsTooSmallSaysTheLeast) {
  const int64_t least = load("none").weight_streaming().least_budget;
  const std::string message = failure([&] { load("300KB"); });
  EXPECT_NE(message.find(fmt::format("give {} bytes", least)), std::string::npos) << message;
  EXPECT_NE(message.find("layer"), std::string::npos) << message;
  load(std::to_string(least));
  EXPECT_NE(failure([&] { load(std::to_string(least - 1)); }).find("too small"), std::string::npos);
  for (const char* wrong : {"-1", "much", "120%", "12Q", "nan", "1e300GB", "%"})
    EXPECT_NE(failure([&] { load(wrong); }).find("the weight budget cannot be"), std::string::npos) << wrong;
}

TEST_F(Streaming, TheBudgetMayChangeBetweenRuns) {
  const Engine engine = Engine::load(path());
  Context context = engine.create_context({.threads = 2});
  set_inputs(context, engine, inputs_);
  for (const char* budget : {"50%", "30%", "", "auto", "40%", "none"}) {
    engine.set_weight_budget(budget);
    context.run();
    EXPECT_EQ(output_of(context, "y"), expected_[0]) << budget;
  }
  engine.set_weight_budget("50%");
  const WeightStreaming before = engine.weight_streaming();
  EXPECT_NE(failure([&] { engine.set_weight_budget("1"); }), "nothing failed");
  EXPECT_EQ(engine.weight_streaming().budget, before.budget);
  context.run();
  EXPECT_EQ(output_of(context, "y"), expected_[0]);
  EXPECT_GT(engine.weight_streaming().brought_bytes, 0);
}

TEST_F(Streaming, EnginesInMemoryGoToATemporaryFile) {
  std::ifstream file(path(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const Engine engine =
      load_engine(MappedFile::from_bytes(std::as_bytes(std::span(bytes))), {.device = "", .weight_budget = "40%"});
  EXPECT_EQ(run_engine(engine, inputs_)[0], expected_[0]);
  EXPECT_GT(engine.weight_streaming().brought_bytes, 0);

  Graph graph = parse_graph(model_text(), operators());
  const Engine built = compile_graph(graph, find_backend("cpu"));
  const Tensor before = run_engine(built, inputs_)[0];
  EXPECT_EQ(built.weight_streaming().streamable_bytes, 0);
  EXPECT_EQ(built.weight_streaming().least_budget, -1);
  built.set_weight_budget("50%");
  EXPECT_EQ(run_engine(built, inputs_)[0], before);
  EXPECT_GT(built.weight_streaming().brought_bytes, 0);
}

TEST_F(Streaming, ContextsTakeTurns) {
  const Engine engine = load("30%");
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      Context context = engine.create_context({.threads = 1});
      set_inputs(context, engine, inputs_);
      for (int run = 0; run < 4; ++run) {
        context.run();
        if (output_of(context, "y") == expected_[0]) ++right;
        if (run == 2) engine.set_weight_budget("35%");
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 16);
}

TEST_F(Streaming, ARunWithinARunIsRefused) {
  const Engine engine = load("30%");
  Context outer = engine.create_context(), inner = engine.create_context();
  set_inputs(outer, engine, inputs_);
  set_inputs(inner, engine, inputs_);
  outer.set_tap("r1", [&](const TensorView&) { inner.run(); });
  EXPECT_NE(failure([&] { outer.run(); }).find("take turns"), std::string::npos);
  outer.set_tap("r1", [&](const TensorView&) { engine.set_weight_budget("40%"); });
  EXPECT_NE(failure([&] { outer.run(); }).find("take turns"), std::string::npos);
  outer.set_tap("r1", {});
  outer.run();
  EXPECT_EQ(output_of(outer, "y"), expected_[0]);
  inner.run();
  EXPECT_EQ(output_of(inner, "y"), expected_[0]);
}

TEST_F(Streaming, ARunThatWasCancelledIsFollowedByOthers) {
  const Engine engine = load("30%");
  Context context = engine.create_context();
  set_inputs(context, engine, inputs_);
  Cancellation cancellation;
  context.set_cancellation(cancellation);
  context.set_tap("r7", [&](const TensorView&) { cancellation.cancel(); });
  EXPECT_NE(failure([&] { context.run(); }).find("cancelled"), std::string::npos);
  context.set_cancellation({});
  context.set_tap("r7", {});
  for (int run = 0; run < 2; ++run) {
    context.run();
    EXPECT_EQ(output_of(context, "y"), expected_[0]);
  }
}

TEST_F(Streaming, AForkedChildStreamsByItself) {
  const Engine engine = load("30%");
  Context context = engine.create_context({.threads = 2});
  set_inputs(context, engine, inputs_);
  context.run();
  expect_in_child([&] {
    for (int run = 0; run < 2; ++run) {
      context.run();
      if (!(output_of(context, "y") == expected_[0])) return false;
    }
    return engine.weight_streaming().brought_bytes > 0;
  });
  context.run();
  EXPECT_EQ(output_of(context, "y"), expected_[0]);
}

TEST_F(Streaming, AFileThatWasCutFailsTheRunThatReadsIt) {
  const Engine engine = load("30%");
  Context context = engine.create_context();
  set_inputs(context, engine, inputs_);
  const auto size = static_cast<off_t>(std::filesystem::file_size(path()));
  ASSERT_EQ(truncate(path().c_str(), size / 2), 0);
  const std::string message = failure([&] { context.run(); });
  EXPECT_NE(message.find("the file was cut"), std::string::npos) << message;
  EXPECT_NE(message.find("layer"), std::string::npos) << message;
  EXPECT_NE(failure([&] { context.run(); }).find("the file was cut"), std::string::npos);
}

TEST_F(Streaming, SavingKeepsTheFileAsItWas) {
  const Engine engine = load("30%");
  run_engine(engine, inputs_);
  engine.save(folder_.file("again.engine"));
  std::ifstream a(path(), std::ios::binary), b(folder_.file("again.engine"), std::ios::binary);
  EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(a), {}) == std::string(std::istreambuf_iterator<char>(b), {}));
  EXPECT_EQ(run_engine(engine, inputs_)[0], expected_[0]);
}

TEST_F(Streaming, ADamagedFileIsFound) {
  std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(layers * layer_bytes / 2);
  file.put('?');
  file.close();
  EXPECT_NE(failure([&] { load("30%"); }).find("damaged"), std::string::npos);
}

TEST(StreamedBodies, LoopsAndBranchesReadTheirWeights) {
  // A branch whose weights are the step's own.
  const std::string_view text = R"(graph "branches" (%c: bool[], %x: f32[4, 256]) {
  const %w: f32[256, 256] = 0.5
  %y = if {} (%c, %x)
    graph "then" (%a: f32[4, 256]) {
      const %v: f32[256, 256] = 0.25
      %t = matmul (%a, %v)
      return "y" = %t
    }
    graph "else" (%a: f32[4, 256]) {
      const %u: f32[256, 256] = 0.125
      %e = matmul (%a, %u)
      return "y" = %e
    }
  %z = matmul (%y, %w)
  return "z" = %z
})";
  const Engine built = compile_graph(parse_graph(text, operators()), find_backend("cpu"));
  Random random = test_random();
  const std::vector<Tensor> inputs = {Tensor::of<uint8_t>(DType::boolean, {}, {1}),
                                      random_tensor(random, DType::f32, {4, 256})};
  const Tensor expected = run_engine(built, inputs)[0];
  TemporaryFolder folder;
  built.save(folder.file("e.engine"));
  const Engine whole = Engine::load(folder.file("e.engine"));
  const int64_t least = whole.weight_streaming().least_budget;
  const Engine engine = Engine::load(folder.file("e.engine"), {.device = "", .weight_budget = std::to_string(least)});
  for (int run = 0; run < 2; ++run) EXPECT_EQ(run_engine(engine, inputs)[0], expected);
  bool has_body_weights = false;
  for (const LayerInfo& layer : whole.layers())
    for (const LayerWeight& weight : layer.weights) has_body_weights |= weight.name == "v" || weight.name == "u";
  EXPECT_TRUE(has_body_weights);
}

}  // namespace
}  // namespace camshaft::weight_stream_test

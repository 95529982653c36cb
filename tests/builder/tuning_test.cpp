// Tuning through whole builds: modes, timing caches, lock files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/temporary_folder.h"
#include "builder/builder.h"
#include "onnx/model_writer.h"
#include "test_random.h"

namespace camshaft::tuning_test {
namespace {

using namespace onnx::testing;  // NOLINT: the writers

std::string read_bytes(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Two convolutions with several tactics each (direct, Winograd) and a matrix product.
std::string model_bytes(int64_t channels, uint64_t seed) {
  Random random(seed);
  const auto weights = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = static_cast<float>(random.integer(-100, 100)) / 1000;
    return values;
  };
  GraphWriter graph("main");
  graph.input("x", DType::f32, {"batch", 16, 20, 20}).output("y", DType::f32, {"batch", 10});
  graph.initializer(TensorWriter("w1", {channels, 16, 3, 3}, weights(channels * 16 * 9)))
      .initializer(TensorWriter("w2", {16, channels, 3, 3}, weights(channels * 16 * 9)))
      .initializer(TensorWriter("w3", {16, 10}, weights(160)))
      .node("Conv", {"x", "w1"}, {"a"}, {attr("pads", {1, 1, 1, 1})})
      .node("Relu", {"a"}, {"b"})
      .node("Conv", {"b", "w2"}, {"c"}, {attr("pads", {1, 1, 1, 1})})
      .node("GlobalAveragePool", {"c"}, {"p"})
      .node("Flatten", {"p"}, {"f"})
      .node("MatMul", {"f", "w3"}, {"y"});
  return ModelWriter().opset(17).graph(graph).bytes();
}

class TunedBuild : public ::testing::Test {
 protected:
  const uint64_t seed = test_seed();
  TemporaryFolder folder;
  std::string model = folder.file("m.onnx");
  BuildReport report;

  TunedBuild() { write(model, model_bytes(32, seed)); }

  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static BuildOptions options(Tuning tuning = Tuning::measure) {
    BuildOptions options;
    options.threads = 1;
    options.tuning = tuning;
    return options;
  }
  BuildOptions locked() const {
    BuildOptions o = options(Tuning::locked);
    o.lock = folder.file("lock");
    return o;
  }
  Engine build(BuildOptions options, const std::string& path = "") {
    Builder builder(std::move(options));
    Engine engine = builder.build(path.empty() ? model : path);
    report = builder.report();
    return engine;
  }
  std::string bytes(const Engine& engine, const std::string& name = "e.engine") const {
    engine.save(folder.file(name));
    return read_bytes(folder.file(name));
  }
  std::string refusal(BuildOptions options, ErrorCode code = ErrorCode::invalid_argument) {
    try {
      build(std::move(options));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      return e.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }
};

std::vector<std::string> tactics(const Engine& engine) {
  std::vector<std::string> list;
  for (const LayerInfo& layer : engine.layers()) list.push_back(layer.tactic);
  return list;
}

TEST_F(TunedBuild, HeuristicBuildsAreEqualWhereverAndHoweverTheyAreMade) {
  BuildOptions o = options(Tuning::heuristic);
  const std::string one = bytes(build(o));
  const TemporaryFolder elsewhere;
  std::filesystem::copy(model, elsewhere.file("m.onnx"));
  o.threads = 2;
  EXPECT_TRUE(one == bytes(build(o, elsewhere.file("m.onnx"))));
  EXPECT_EQ(report.problems_measured, 0);
}

TEST_F(TunedBuild, TheSameLockFileGivesTheSameEngineByteByByte) {
  BuildOptions o = options();
  o.write_lock = folder.file("lock");
  const std::string measured = bytes(build(o));
  EXPECT_GE(report.problems_measured, 2);
  const TemporaryFolder elsewhere;
  std::filesystem::copy(model, elsewhere.file("m.onnx"));
  for (const int threads : {1, 3}) {
    BuildOptions l = locked();
    l.threads = threads;
    l.verify = threads == 1;
    EXPECT_TRUE(measured == bytes(build(l, elsewhere.file("m.onnx")))) << threads;
    EXPECT_EQ(report.problems_measured, 0);
  }
}

TEST_F(TunedBuild, ALockFileDecidesAgainstCostModelAndClock) {
  write(model, model_bytes(256, seed));  // wide enough for Winograd with AVX2, too
  BuildOptions o = options(Tuning::heuristic);
  o.write_lock = folder.file("lock");
  o.verify = false;  // nothing approximate
  const std::vector<std::string> exact = tactics(build(o));
  EXPECT_NE(tactics(build(options(Tuning::heuristic))), exact) << "something approximate is cheaper";
  EXPECT_EQ(tactics(build(locked())), exact);
}

/// An inverted bottleneck whose middle is larger than any core's own cache, and one that is small:
/// one runs as a chain, the other one as its parts.
std::string bottlenecks(Random random) {
  const auto weights = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = static_cast<float>(random.integer(-100, 100)) / 300;
    return values;
  };
  GraphWriter graph("main");
  graph.input("x", DType::f32, {"batch", 8, 320, 320}).output("y", DType::f32, {"batch", 8, 10, 10});
  std::string x = "x";
  for (const std::string at : {"1", "2"}) {
    graph.initializer(TensorWriter("e" + at, {48, 8, 1, 1}, weights(48 * 8)))
        .initializer(TensorWriter("d" + at, {48, 1, 3, 3}, weights(48 * 9)))
        .initializer(TensorWriter("p" + at, {8, 48, 1, 1}, weights(8 * 48)))
        .node("Conv", {x, "e" + at}, {"wide" + at})
        .node("Relu", {"wide" + at}, {"r" + at})
        .node("Conv", {"r" + at, "d" + at}, {"deep" + at},
              {attr("pads", {1, 1, 1, 1}), attr("group", int64_t{48}), attr("strides", {1, 1})})
        .node("Relu", {"deep" + at}, {"s" + at});
    graph.node("Conv", {"s" + at, "p" + at}, {at == "2" ? "y" : "narrow"});
    if (at == "1")
      graph.node("AveragePool", {"narrow"}, {"pooled"}, {attr("kernel_shape", {32, 32}), attr("strides", {32, 32})});
    x = "pooled";
  }
  return ModelWriter().opset(17).graph(graph).bytes();
}

TEST_F(TunedBuild, ChainsAreLockedAndSavedLikeAnythingElse) {
  write(model, bottlenecks(Random(seed)));
  BuildOptions o = options(Tuning::heuristic);
  o.write_lock = folder.file("lock");
  const Engine engine = build(o);  // verified
  const std::vector<std::string> chosen = tactics(engine);
  EXPECT_EQ(std::count(chosen.begin(), chosen.end(), "bands"), 1);
  EXPECT_EQ(std::count(chosen.begin(), chosen.end(), "depthwise"), 1);
  std::string notes;
  for (const LayerInfo& layer : engine.layers())
    for (const std::string& note : layer.notes) notes += note + "\n";
  EXPECT_NE(notes.find("not chained with"), std::string::npos);
  const std::string saved = bytes(engine);
  EXPECT_EQ(tactics(Engine::load(folder.file("e.engine"))), chosen);
  for (const int threads : {1, 2}) {
    BuildOptions l = locked();
    l.threads = threads;
    EXPECT_TRUE(saved == bytes(build(l))) << threads;
  }
  // Measured ones too, whatever was chosen.
  BuildOptions m = options();
  m.write_lock = folder.file("lock");
  const std::string measured = bytes(build(m));
  EXPECT_TRUE(measured == bytes(build(locked())));
}

TEST_F(TunedBuild, LockFilesThatDoNotFitAreRefused) {
  BuildOptions o = options(Tuning::heuristic);
  o.write_lock = folder.file("lock");
  build(o);
  const std::string lock = read_bytes(folder.file("lock"));

  write(model, model_bytes(48, seed));
  EXPECT_NE(refusal(locked()).find("another model: 'm.onnx'"), std::string::npos);
  write(model, model_bytes(32, seed));

  // Other shapes are other computations.
  BuildOptions shaped = locked();
  shaped.profiles = {{{{"x", {{2, 16, 20, 20}, {2, 16, 20, 20}, {2, 16, 20, 20}}}}}};
  EXPECT_NE(refusal(shaped).find("shapes"), std::string::npos);

  write(folder.file("lock"), lock.substr(0, lock.size() / 2));
  EXPECT_NE(refusal(locked()).find("lock file"), std::string::npos);
  std::filesystem::remove(folder.file("lock"));
  EXPECT_NE(refusal(locked(), ErrorCode::io).find(folder.file("lock")), std::string::npos);
}

TEST_F(TunedBuild, AWarmTimingCacheMeasuresNothing) {
  BuildOptions o = options();
  o.timing_cache = folder.file("cache");
  const std::string cold = bytes(build(o));
  EXPECT_GE(report.problems_measured, 2);
  EXPECT_EQ(report.problems_cached, 0);
  const std::string content = read_bytes(folder.file("cache"));
  EXPECT_TRUE(cold == bytes(build(o)));
  EXPECT_EQ(report.problems_measured, 0);
  EXPECT_GE(report.problems_cached, 2);
  EXPECT_EQ(read_bytes(folder.file("cache")), content);

  write(folder.file("cache"), content.substr(0, content.size() / 2));
  EXPECT_NE(refusal(o).find(folder.file("cache")), std::string::npos);
  EXPECT_EQ(read_bytes(folder.file("cache")).size(), content.size() / 2) << "a damaged cache is left alone";
}

TEST_F(TunedBuild, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_NE(refusal(options(static_cast<Tuning>(7))).find("mode 7"), std::string::npos);
  EXPECT_NE(refusal(options(Tuning::locked)).find("needs a lock file"), std::string::npos);
  BuildOptions both = options();
  both.lock = folder.file("lock");
  EXPECT_NE(refusal(both).find("locked tuning alone"), std::string::npos);
  for (const double seconds : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    BuildOptions o = options();
    o.tuning_seconds = seconds;
    EXPECT_NE(refusal(o).find("seconds"), std::string::npos);
  }
}

TEST_F(TunedBuild, WhatSpreadsAnInfinityIsRefusedWhereThereIsOne) {
  Random random(seed);
  std::vector<float> weights(64 * 64 * 9), image(64 * 24 * 24);
  for (float& v : weights) v = static_cast<float>(random.uniform(-1, 1));
  for (float& v : image) v = static_cast<float>(random.uniform(-1, 1));
  GraphWriter graph("main");
  graph.input("x", DType::f32, {1, 64, 24, 24}).output("y", DType::f32, {1, 64, 24, 24});
  graph.initializer(TensorWriter("w", {64, 64, 3, 3}, weights))
      .node("Conv", {"x", "w"}, {"y"}, {attr("pads", {1, 1, 1, 1})});
  write(model, ModelWriter().opset(17).graph(graph).bytes());
  for (const bool infinite : {false, true}) {
    if (infinite) image[64 * 24 * 12] = std::numeric_limits<float>::infinity();
    BuildOptions o = options(Tuning::heuristic);
    o.verification_inputs["x"] = {DType::f32, {1, 64, 24, 24}, image.data(), image.size() * sizeof(float)};
    const Engine engine = build(o);
    EXPECT_EQ(report.approximate_refused, infinite);
    const std::vector<LayerInfo> layers = engine.layers();
    const bool transforms = std::any_of(layers.begin(), layers.end(), [](const LayerInfo& layer) {
      return layer.tactic.find("winograd") != std::string::npos;
    });
    EXPECT_EQ(transforms, !infinite);
  }
}

TEST_F(TunedBuild, WhatRoundsTooMuchIsRefusedAndSaysSo) {
  // The sine of large numbers shows every rounding error.
  Random random(seed);
  std::vector<float> weights(64 * 64 * 9);
  for (float& v : weights) v = static_cast<float>(random.integer(-100, 100)) / 100;
  GraphWriter graph("main");
  graph.input("x", DType::f32, {1, 64, 24, 24}).output("y", DType::f32, {1, 64, 24, 24});
  graph.initializer(TensorWriter("w", {64, 64, 3, 3}, weights))
      .initializer(TensorWriter("k", {1}, std::vector<float>{100}))
      .node("Conv", {"x", "w"}, {"a"}, {attr("pads", {1, 1, 1, 1})})
      .node("Mul", {"a", "k"}, {"b"})
      .node("Sin", {"b"}, {"y"});
  write(model, ModelWriter().opset(17).graph(graph).bytes());
  BuildOptions o = options();
  o.write_lock = folder.file("lock");
  const Engine engine = build(o);
  EXPECT_TRUE(report.approximate_refused);
  int refused = 0;
  for (const LayerInfo& layer : engine.layers())
    for (const TacticTrial& t : layer.tried) {
      refused += t.refused ? 1 : 0;
      EXPECT_FALSE(t.refused && t.tactic == layer.tactic) << t.tactic;
    }
  EXPECT_GE(refused, 1);
  EXPECT_TRUE(bytes(engine) == bytes(build(locked())));
}

TEST_F(TunedBuild, TheEngineRemembersWhatWasTried) {
  bytes(build(options()));
  const Engine engine = Engine::load(folder.file("e.engine"));
  EXPECT_EQ(engine.metadata().at("tuning").rfind("measured with 1 thread on ", 0), 0u);
  int measured = 0;
  for (const LayerInfo& layer : engine.layers()) {
    ASSERT_FALSE(layer.tried.empty()) << layer.name;
    const bool known = std::any_of(layer.tried.begin(), layer.tried.end(),
                                   [&](const TacticTrial& t) { return t.tactic == layer.tactic; });
    EXPECT_TRUE(known) << layer.name;
    measured += static_cast<int>(
        std::count_if(layer.tried.begin(), layer.tried.end(), [](const TacticTrial& t) { return t.measured_ns > 0; }));
  }
  EXPECT_GE(measured, 4);
}

}  // namespace
}  // namespace camshaft::tuning_test

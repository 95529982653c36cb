// Engines that are wrong in one way each, and are refused: built from a model that differs from the one they are held
// to. Beside each, the right engine of the same model passes.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "base/temporary_folder.h"
#include "builder/builder.h"
#include "builder/verify_engine.h"
#include "onnx/importer.h"
#include "onnx/model_writer.h"

namespace camshaft::wrong_engines_test {
namespace {

using namespace onnx::testing;  // NOLINT: the writers

void write(const std::string& path, const GraphWriter& graph) {
  std::ofstream(path, std::ios::binary) << ModelWriter().opset(17).graph(graph).bytes();
}

VerifyResult verify(const GraphWriter& model, const GraphWriter& built, const VerifyOptions& options = {},
                    const std::vector<Profile>& profiles = {}) {
  const TemporaryFolder folder;
  const std::string right = folder.file("right.onnx"), wrong = folder.file("wrong.onnx");
  write(right, model);
  write(wrong, built);
  BuildOptions build;
  build.verify = false;
  build.tuning = Tuning::heuristic;
  build.profiles = profiles;
  // As a build reads it: what all profiles fix is a number.
  onnx::ImportOptions import;
  for (const Profile& profile : profiles)
    for (const auto bound : {&ShapeRange::min, &ShapeRange::max})
      for (auto& shapes = import.shapes.emplace_back(); const auto& [name, range] : profile.inputs)
        shapes[name] = range.*bound;
  ThreadPool pool(1);
  return verify_engine(onnx::import_model(right, import).graph, Builder(build).build(wrong), options, pool);
}

VerifyOptions of_precision(double tolerance, double rounding_noise) {
  VerifyOptions options;
  options.tolerance = options.sensitivity_above = tolerance;
  options.rounding_noise = rounding_noise;
  return options;
}

const VerifyOptions f32 = of_precision(1e-4, 0x1p-22), f16 = of_precision(0.02, 0x1p-11),
                    bf16 = of_precision(0.1, 0x1p-8);

// Boxes in pixels beside scores from 0 to 1, which become factor * score + shift.
GraphWriter detections(const std::vector<int64_t>& dims, int64_t axis, float factor, float shift) {
  ShapeWriter in, out;
  for (size_t i = 0; i < dims.size(); ++i) {
    in.emplace_back(dims[i]);
    out.emplace_back(dims[i] * (static_cast<int64_t>(i) == axis ? 2 : 1));
  }
  return GraphWriter()
      .input("x", DType::f32, in)
      .output("y", DType::f32, out)
      .initializer(TensorWriter("pixels", {}, std::vector<float>{640}))
      .initializer(TensorWriter("factor", {}, std::vector<float>{factor}))
      .initializer(TensorWriter("shift", {}, std::vector<float>{shift}))
      .node("Mul", {"x", "pixels"}, {"boxes"})
      .node("Sigmoid", {"x"}, {"scores"})
      .node("Mul", {"scores", "factor"}, {"multiplied"})
      .node("Add", {"multiplied", "shift"}, {"shifted"})
      .node("Concat", {"boxes", "shifted"}, {"y"}, {attr("axis", axis)});
}

TEST(WrongEngines, ScoresBesideBoxes) {
  const std::vector<int64_t> dims = {1, 16, 200};
  const GraphWriter right = detections(dims, 1, 1, 0);
  for (const VerifyOptions& options : {f32, f16, bf16}) {
    const VerifyResult passed = verify(right, right, options);
    EXPECT_TRUE(passed.passed) << passed.layers.culprit;
    EXPECT_FALSE(verify(right, detections(dims, 1, 0, 0), options).passed) << "all 0, by " << options.tolerance;
    for (const float shift : {0.15F, -0.15F})
      EXPECT_FALSE(verify(right, detections(dims, 1, 1, shift), options).passed)
          << shift << " by " << options.tolerance;
  }
}

TEST(WrongEngines, AFewScoresBesideAFewBoxes) {
  // Too few of each for a scale of their own, and yet half of all elements are wrong.
  const GraphWriter right = detections({1, 20}, 1, 1, 0);
  EXPECT_TRUE(verify(right, right, f16).passed);
  EXPECT_FALSE(verify(right, detections({1, 20}, 1, 0, 0), f16).passed);
}

// A residual branch that adds little: 64 columns, each a sum of 64 of `x` by weights of up to `most`, rows of which are
// shifted by `rows`.
GraphWriter small_branch(int64_t rows, double most) {
  constexpr int64_t size = 64;
  std::vector<float> weights;
  for (int64_t i = 0; i < size * size; ++i) {
    const int64_t from = (i + rows * size) % (size * size);
    weights.push_back(static_cast<float>(most * static_cast<double>(from * 37 % 101 - 50) / 50));
  }
  return GraphWriter()
      .input("x", DType::f32, {32, size})
      .output("y", DType::f32, {32, size})
      .initializer(TensorWriter("w", {size, size}, weights))
      .node("MatMul", {"x", "w"}, {"product"})
      .node("Add", {"x", "product"}, {"y"});
}

TEST(WrongEngines, BranchesThatAddLittle) {
  for (const auto& [options, most] : {std::pair{f32, 5e-6}, {f16, 1e-3}, {bf16, 5e-3}}) {
    EXPECT_TRUE(verify(small_branch(0, most), small_branch(0, most), options).passed);
    const VerifyResult wrong = verify(small_branch(0, most), small_branch(1, most), options);
    EXPECT_FALSE(wrong.passed) << "by " << options.tolerance;
    EXPECT_LT(wrong.outputs[0].relative(), options.tolerance);
    EXPECT_NE(wrong.outputs[0].doubt.find("rounding explains"), std::string::npos) << wrong.outputs[0].doubt;
  }
}

TEST(WrongEngines, WhatIsKnownOfTheReferenceChangesNoVerdict) {
  KnownReference known;
  VerifyOptions options = bf16;
  options.known = &known;
  for (int run = 0; run < 2; ++run) {
    EXPECT_TRUE(verify(small_branch(0, 5e-3), small_branch(0, 5e-3), options).passed);
    EXPECT_FALSE(verify(small_branch(0, 5e-3), small_branch(1, 5e-3), options).passed);
    EXPECT_FALSE(known.samples.empty());
    EXPECT_FALSE(known.noise.empty());
  }
}

TEST(WrongEngines, TheCulpritIsNamedIfAskedFor) {
  VerifyOptions options = f32;
  EXPECT_NE(verify(small_branch(0, 1), small_branch(1, 1), options).layers.culprit, "");
  options.names_culprit = false;
  const VerifyResult unnamed = verify(small_branch(0, 1), small_branch(1, 1), options);
  EXPECT_FALSE(unnamed.passed);
  EXPECT_EQ(unnamed.layers.culprit, "");
}

// Quantised before and after a product; read with another zero point, or with `sign` times the weights.
GraphWriter quantized(int zero_read, float sign) {
  constexpr int64_t size = 32;
  std::vector<float> weights;
  for (int64_t i = 0; i < size * size; ++i) weights.push_back(sign * static_cast<float>((i * 37) % 101 - 50) / 100);
  return GraphWriter()
      .input("x", DType::f32, {64, size})
      .output("y", DType::f32, {64, size})
      .initializer(TensorWriter("w", {size, size}, weights))
      .initializer(TensorWriter("x_scale", {}, std::vector<float>{0.027F}))
      .initializer(TensorWriter("y_scale", {}, std::vector<float>{0.083F}))
      .initializer(TensorWriter("zero", {}, std::vector<uint8_t>{128}))
      .initializer(TensorWriter("zero_read", {}, std::vector<uint8_t>{static_cast<uint8_t>(zero_read)}))
      .node("QuantizeLinear", {"x", "x_scale", "zero"}, {"xq"})
      .node("DequantizeLinear", {"xq", "x_scale", "zero"}, {"xd"})
      .node("MatMul", {"xd", "w"}, {"product"})
      .node("QuantizeLinear", {"product", "y_scale", "zero"}, {"yq"})
      .node("DequantizeLinear", {"yq", "y_scale", "zero_read"}, {"y"});
}

TEST(WrongEngines, StepsOfQuantizedValues) {
  EXPECT_TRUE(verify(quantized(128, 1), quantized(128, 1)).passed);
  EXPECT_FALSE(verify(quantized(128, 1), quantized(129, 1)).passed) << "each element a step off";
  EXPECT_FALSE(verify(quantized(128, 1), quantized(128, -1)).passed);
  EXPECT_FALSE(verify(quantized(128, 1), quantized(128, 1.01F)).passed);
}

// The order of scores, of which `ties` are equal and the others a unit apart.
GraphWriter ranking(int64_t ties, bool largest_first) {
  constexpr int64_t count = 200;
  std::vector<float> scores;
  for (int64_t i = 0; i < count; ++i) scores.push_back(i < ties ? 1 : static_cast<float>(i));
  return GraphWriter()
      .input("x", DType::f32, {count})
      .output("order", DType::i64, {count})
      .initializer(TensorWriter("zero", {}, std::vector<float>{0}))
      .initializer(TensorWriter("scores", {count}, scores))
      .initializer(TensorWriter("k", {1}, std::vector<int64_t>{count}))
      .node("Mul", {"x", "zero"}, {"nothing"})
      .node("Add", {"nothing", "scores"}, {"sum"})
      .node("TopK", {"sum", "k"}, {"sorted", "order"}, {attr("largest", largest_first ? 1 : 0)});
}

TEST(WrongEngines, NearTiesExcuseNoFurtherIndices) {
  // A quarter of the order is a matter of chance; of the wrong engine's, nearly all of it is the other way round.
  EXPECT_TRUE(verify(ranking(54, true), ranking(54, true)).passed);
  EXPECT_FALSE(verify(ranking(54, true), ranking(54, false)).passed);
}

// A wave, of which rounding makes anything, so that layers are judged; and beside it the place of the largest number of
// a product, or the place before.
GraphWriter place_beside_wave(bool one_off) {
  std::vector<float> weights;
  for (int64_t i = 0; i < 64 * 8; ++i) weights.push_back(static_cast<float>(i * 37 % 101 - 50) / 50);
  GraphWriter graph = GraphWriter()
                          .input("x", DType::f32, {32, 64})
                          .output("wave", DType::f32, {32, 8})
                          .output("y", DType::i64, {32, 1})
                          .initializer(TensorWriter("w", {64, 8}, weights))
                          .initializer(TensorWriter("often", {}, std::vector<float>{1e5F}))
                          .initializer(TensorWriter("one", {}, std::vector<int64_t>{1}))
                          .node("MatMul", {"x", "w"}, {"product"})
                          .node("Mul", {"product", "often"}, {"angle"})
                          .node("Sin", {"angle"}, {"wave"})
                          .node("ArgMax", {"product"}, {"place"}, {attr("axis", 1)});
  if (one_off)
    graph.node("Sub", {"place", "one"}, {"before"}).node("Abs", {"before"}, {"y"});
  else
    graph.node("Identity", {"place"}, {"y"});
  return graph;
}

// Its layer computes what it should, and something else becomes the output.
TEST(WrongEngines, AnOutputIsJudgedThoughItsLayerIsRight) {
  for (const VerifyOptions& options : {f32, f16, bf16}) {
    const VerifyResult right = verify(place_beside_wave(false), place_beside_wave(false), options);
    EXPECT_TRUE(right.passed) << right.layers.culprit;
    const VerifyResult wrong = verify(place_beside_wave(false), place_beside_wave(true), options);
    EXPECT_TRUE(wrong.by_layers) << "by " << options.tolerance;
    EXPECT_FALSE(wrong.passed) << "by " << options.tolerance;
  }
}

// One output is an input as it is, which no layer computes.
TEST(WrongEngines, AnInputThatIsAnOutputIsJudged) {
  const auto model = [](const char* op) {
    return place_beside_wave(false).output("same", DType::f32, {32, 64}).node(op, {"x"}, {"same"});
  };
  for (const VerifyOptions& options : {f32, f16, bf16}) {
    const VerifyResult right = verify(model("Identity"), model("Identity"), options);
    EXPECT_TRUE(right.passed) << right.layers.culprit;
    const VerifyResult wrong = verify(model("Identity"), model("Neg"), options);
    EXPECT_TRUE(wrong.by_layers) << "by " << options.tolerance;
    EXPECT_FALSE(wrong.passed) << "by " << options.tolerance;
    EXPECT_TRUE(wrong.layers.culprit.starts_with("output 'same'")) << wrong.layers.culprit;
  }
}

// Scores of a product before a softmax, the last row of which is 0 in the wrong engine: rounding moves some
// probabilities far, though not those of most rows.
GraphWriter probabilities(bool last_row) {
  std::vector<float> same(64 * 64);
  for (size_t i = 0; i < 64; ++i) same[i * 65] = 1;
  GraphWriter graph = GraphWriter()
                          .input("x", DType::f32, {64, 64})
                          .output("y", DType::f32, {64, 64})
                          .initializer(TensorWriter("sharp", {}, std::vector<float>{12}))
                          .initializer(TensorWriter("begin", {1}, std::vector<int64_t>{0}))
                          .initializer(TensorWriter("end", {1}, std::vector<int64_t>{63}))
                          .initializer(TensorWriter("none", {1, 64}, std::vector<float>(64)))
                          .initializer(TensorWriter("same", {64, 64}, same))
                          .node("MatMul", {"x", "same"}, {"product"})
                          .node("Mul", {"product", "sharp"}, {"scores"});
  if (last_row) return graph.node("Softmax", {"scores"}, {"y"}, {attr("axis", 1)});
  return graph.node("Slice", {"scores", "begin", "end"}, {"rows"})
      .node("Concat", {"rows", "none"}, {"written"}, {attr("axis", 0)})
      .node("Softmax", {"written"}, {"y"}, {attr("axis", 1)});
}

TEST(WrongEngines, WhatRoundingMovesSmoothlyExcusesNoRow) {
  EXPECT_TRUE(verify(probabilities(true), probabilities(true), bf16).passed);
  const VerifyResult wrong = verify(probabilities(true), probabilities(false), bf16);
  EXPECT_TRUE(wrong.by_layers);
  EXPECT_FALSE(wrong.passed);
}

// Scores that no product reads are not rounded where bf16 is allowed alone: what is off there is wrong.
GraphWriter best_scores(float offset) {
  return GraphWriter()
      .input("scores", DType::f32, {1, 16})
      .output("best", DType::f32, {1, 4})
      .output("places", DType::i64, {1, 4})
      .initializer(TensorWriter("count", {1}, std::vector<int64_t>{4}))
      .initializer(TensorWriter("offset", {1, 16}, std::vector<float>(16, offset)))
      .node("Add", {"scores", "offset"}, {"moved"})
      .node("TopK", {"moved", "count"}, {"best", "places"});
}

TEST(WrongEngines, WhatNoProductReadsIsNotRounded) {
  EXPECT_TRUE(verify(best_scores(0), best_scores(0), bf16).passed);
  EXPECT_FALSE(verify(best_scores(0), best_scores(0.02F), bf16).passed);
}

GraphWriter pixels(int64_t most) {
  return GraphWriter()
      .input("x", DType::u8, {1, 3, 8, 8})
      .output("y", DType::f32, {1, 3, 8, 8})
      .initializer(TensorWriter("most", {}, std::vector<float>{static_cast<float>(most)}))
      .node("Cast", {"x"}, {"number"}, {attr("to", 1)})
      .node("Min", {"number", "most"}, {"y"});
}

TEST(WrongEngines, BytesAreTriedOverTheirWholeRange) {
  EXPECT_TRUE(verify(pixels(255), pixels(255)).passed);
  EXPECT_FALSE(verify(pixels(255), pixels(127)).passed) << "bytes taken as signed";
}

GraphWriter sums_of_integers(int64_t most) {
  return GraphWriter()
      .input("x", DType::i32, {8, 8})
      .output("y", DType::i32, {8, 8})
      .initializer(TensorWriter("most", {}, std::vector<int32_t>{static_cast<int32_t>(most)}))
      .initializer(TensorWriter("three", {}, std::vector<int32_t>{3}))
      .node("Mul", {"x", "three"}, {"product"})
      .node("Min", {"product", "most"}, {"y"});
}

TEST(WrongEngines, IntegersThatStayIntegersAreTriedBeyondZeroAndOne) {
  EXPECT_TRUE(verify(sums_of_integers(1 << 30), sums_of_integers(1 << 30)).passed);
  EXPECT_FALSE(verify(sums_of_integers(1 << 30), sums_of_integers(127)).passed);
}

GraphWriter logarithms_of_negatives(float factor) {
  return GraphWriter()
      .input("x", DType::f32, {64})
      .output("y", DType::f32, {64})
      .initializer(TensorWriter("factor", {}, std::vector<float>{factor}))
      .initializer(TensorWriter("below", {}, std::vector<float>{-1}))
      .node("Mul", {"x", "x"}, {"square"})
      .node("Sub", {"below", "square"}, {"negative"})
      .node("Log", {"negative"}, {"nan"})
      .node("Mul", {"nan", "factor"}, {"y"});
}

TEST(WrongEngines, NothingIsVerifiedWhereNothingIsFinite) {
  const VerifyResult result = verify(logarithms_of_negatives(1), logarithms_of_negatives(2));
  EXPECT_FALSE(result.passed);
  const TemporaryFolder folder;
  write(folder.file("nan.onnx"), logarithms_of_negatives(1));
  try {
    Builder().build(folder.file("nan.onnx"));
    FAIL() << "a build that compared nothing";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no finite number"), std::string::npos) << error.what();
  }
}

TEST(WrongEngines, AnOutputWithoutAFiniteNumberIsNamed) {
  GraphWriter graph = logarithms_of_negatives(1);
  graph.output("square", DType::f32, {64});
  const TemporaryFolder folder;
  write(folder.file("half.onnx"), graph);
  Builder builder;
  EXPECT_NO_THROW(builder.build(folder.file("half.onnx")));
  ASSERT_EQ(builder.report().not_verified.size(), 1U);
  EXPECT_NE(builder.report().not_verified[0].find("output 'y'"), std::string::npos);
}

// x * 2, and in the wrong engine more with each row beyond or short of `rows`, or beyond alone where that is measured
// by Relu.
GraphWriter doubled(int64_t rows, float slope, const char* measure = "Abs") {
  return GraphWriter()
      .input("x", DType::f32, {"n", 16})
      .output("y", DType::f32, {"n", 16})
      .initializer(TensorWriter("two", {}, std::vector<float>{2}))
      .initializer(TensorWriter("zero", {}, std::vector<int64_t>{0}))
      .initializer(TensorWriter("rows", {}, std::vector<float>{static_cast<float>(rows)}))
      .initializer(TensorWriter("slope", {}, std::vector<float>{slope}))
      .node("Shape", {"x"}, {"shape"})
      .node("Gather", {"shape", "zero"}, {"n_"})
      .node("Cast", {"n_"}, {"count"}, {attr("to", 1)})
      .node("Sub", {"count", "rows"}, {"beyond"})
      .node(measure, {"beyond"}, {"distance"})
      .node("Mul", {"distance", "slope"}, {"error"})
      .node("Mul", {"x", "two"}, {"product"})
      .node("Add", {"product", "error"}, {"y"});
}

TEST(WrongEngines, EveryProfileIsTriedAtItsBoundsToo) {
  const Profile first{{{"x", {{2, 16}, {4, 16}, {4, 16}}}}}, second{{{"x", {{4, 16}, {4, 16}, {9, 16}}}}};
  const Profile narrow{{{"x", {{4, 16}, {4, 16}, {4, 16}}}}};
  for (const std::vector<Profile>& profiles : {std::vector{first}, std::vector{second}, std::vector{narrow, second}}) {
    EXPECT_TRUE(verify(doubled(4, 0), doubled(4, 0), {}, profiles).passed);
    EXPECT_FALSE(verify(doubled(4, 0), doubled(4, 1), {}, profiles).passed);
  }
  EXPECT_TRUE(verify(doubled(4, 0), doubled(4, 1), {}, {narrow}).passed) << "it takes no other size";
}

TEST(WrongEngines, BoundsThatThereIsNoTimeForAreNamed) {
  const Profile profile{{{"x", {{2, 16}, {4, 16}, {9, 16}}}}};
  VerifyOptions options;
  options.seconds = 0;
  const VerifyResult result = verify(doubled(4, 0), doubled(4, 0), options, {profile});
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.samples, (std::vector<std::string>{"seed 0, x: [4, 16]"}));
  ASSERT_EQ(result.left_out.size(), 2U);
  EXPECT_NE(result.left_out[1].find("the largest shapes of profile 0: no time left"), std::string::npos);
}

TEST(WrongEngines, WithoutProfilesFurtherSizesAreTried) {
  EXPECT_TRUE(verify(doubled(1, 0), doubled(1, 0)).passed);
  EXPECT_FALSE(verify(doubled(1, 0), doubled(1, 1)).passed);
}

// Where kernels begin to take several rows at a time, or share them out among threads.
TEST(WrongEngines, LargerSizesAreTriedWhereTheyAreCheap) {
  EXPECT_TRUE(verify(doubled(20, 0, "Relu"), doubled(20, 0, "Relu")).passed);
  EXPECT_FALSE(verify(doubled(20, 0, "Relu"), doubled(20, 1, "Relu")).passed);
  VerifyOptions options;
  options.seconds = 0;
  EXPECT_TRUE(verify(doubled(20, 0, "Relu"), doubled(20, 1, "Relu"), options).passed);
}

// x, or twice as much where the largest of x is beyond what the first seed draws.
GraphWriter rarely_wrong(float most, float factor) {
  return GraphWriter()
      .input("x", DType::f32, {4})
      .output("y", DType::f32, {4})
      .initializer(TensorWriter("most", {}, std::vector<float>{most}))
      .initializer(TensorWriter("factor", {}, std::vector<float>{factor}))
      .node("Greater", {"x", "most"}, {"large"})
      .node("Mul", {"x", "factor"}, {"product"})
      .node("Where", {"large", "product", "x"}, {"y"});
}

TEST(WrongEngines, SeveralSeedsAreTried) {
  int refused = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    VerifyOptions options;
    options.seed = seed;
    refused += verify(rarely_wrong(1, 1), rarely_wrong(1, 2), options).passed ? 0 : 1;
    EXPECT_TRUE(verify(rarely_wrong(1, 1), rarely_wrong(1, 1), options).passed);
  }
  EXPECT_GE(refused, 14) << "some of 4 numbers are above 1 with a probability of 0.5: one seed each would refuse 10";
}

TEST(WrongEngines, WhatCannotBeVerifiedIsNotBuilt) {
  const TemporaryFolder folder;
  const std::string path = folder.file("axes.onnx");
  const GraphWriter graph = GraphWriter()
                                .input("x", DType::f32, {2, 3, 4})
                                .input("axes", DType::i64, {2})
                                .output("y", DType::f32, {any_dim, any_dim, any_dim})
                                .node("ReduceSum", {"x", "axes"}, {"y"}, {attr("keepdims", 1)});
  std::ofstream(path, std::ios::binary) << ModelWriter().opset(18).graph(graph).bytes();
  try {
    Builder().build(path);
    FAIL() << "an engine that nothing was held to";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("--no-verify"), std::string::npos) << error.what();
  }
  const Tensor axes = Tensor::of<int64_t>(DType::i64, {2}, {0, 2});
  BuildOptions given;
  given.verification_inputs["axes"] = view_of(axes);
  EXPECT_NO_THROW(Builder(given).build(path));
  BuildOptions unverified;
  unverified.verify = false;
  EXPECT_NO_THROW(Builder(unverified).build(path));
}

// It takes 16384 numbers and no fewer, and makes 2^42 of them, which no machine has room for.
TEST(WrongEngines, SizesThatAreTooLargeForTheMachineAreNoInputs) {
  const TemporaryFolder folder;
  write(folder.file("large.onnx"), GraphWriter()
                                       .input("x", DType::f32, {1, "n"})
                                       .output("y", DType::f32, {any_dim, any_dim, any_dim})
                                       .initializer(TensorWriter("rows", {2}, std::vector<int64_t>{-1, 16384}))
                                       .initializer(TensorWriter("all", {3}, std::vector<int64_t>{16384, 16384, 16384}))
                                       .node("Reshape", {"x", "rows"}, {"row"})
                                       .node("Expand", {"row", "all"}, {"y"}));
  try {
    Builder().build(folder.file("large.onnx"));
    FAIL() << "an engine that nothing was held to";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
    EXPECT_NE(std::string(error.what()).find("--max-operations"), std::string::npos) << error.what();
  }
}

// Up to 399 samples no window fits: 128 and 96 would be accepted, and nothing compared.
TEST(WrongEngines, SizesThatLeaveNothingAreTriedLast) {
  const GraphWriter windows = GraphWriter()
                                  .input("x", DType::f32, {1, 1, "samples"})
                                  .output("y", DType::f32, {1, 4, any_dim})
                                  .initializer(TensorWriter("w", {4, 1, 400}, std::vector<float>(1600, 0.5F)))
                                  .node("Conv", {"x", "w"}, {"y"}, {attr("strides", {320})});
  const VerifyResult result = verify(windows, windows);
  EXPECT_TRUE(result.passed);
  EXPECT_GT(result.samples.size(), 1U);
  for (const std::string& sample : result.samples) EXPECT_NE(sample.find("[1, 1, 1024]"), std::string::npos) << sample;
}

// Made-up inputs that leave nothing say nothing, but the caller's own may be meant so.
TEST(WrongEngines, EmptyOutputsAreRightForGivenInputs) {
  const TemporaryFolder folder;
  const std::string path = folder.file("empty.onnx");
  write(path, GraphWriter()
                  .input("x", DType::f32, {4})
                  .input("starts", DType::i64, {1})
                  .output("y", DType::f32, {any_dim})
                  .initializer(TensorWriter("ends", {1}, std::vector<int64_t>{0}))
                  .node("Slice", {"x", "starts", "ends"}, {"y"}));
  EXPECT_THROW(Builder().build(path), Error);
  const Tensor x = Tensor::of<float>(DType::f32, {4}, {1, 2, 3, 4}), starts = Tensor::of<int64_t>(DType::i64, {1}, {2});
  BuildOptions given;
  given.verification_inputs = {{"x", view_of(x)}, {"starts", view_of(starts)}};
  Builder builder(given);
  EXPECT_NO_THROW(builder.build(path));
  EXPECT_EQ(builder.report().not_verified.size(), 1U);
}

}  // namespace
}  // namespace camshaft::wrong_engines_test

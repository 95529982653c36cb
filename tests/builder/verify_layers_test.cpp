// Layers judged by what rounding does to their own sums: gates whose sum cancels pass, wrong ones beside them do not.
#include "builder/verify_layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/temporary_folder.h"
#include "builder/builder.h"
#include "onnx/importer.h"
#include "onnx/model_writer.h"
#include "optimize/precision/expand_quantization.h"
#include "test_random.h"

namespace camshaft::verify_layers_test {
namespace {

using namespace onnx::testing;  // NOLINT: the writers

constexpr int64_t terms = 1024, gates = 48;

// y = sigmoid(x · w): the end of squeeze and excite. The products of most gates are small; those of `cancelling` rise
// to five thousand and come down to about `left` again.
struct Gate {
  std::vector<float> x, weights;

  Gate(Random& random, int64_t cancelling, double left) : x(terms), weights(terms * gates) {
    for (float& v : x) v = static_cast<float>(random.uniform(500, 1500));
    for (int64_t g = 0; g < gates; ++g) {
      double sum = 0;
      for (int64_t k = 0; k < terms; ++k) {
        const double input = x[static_cast<size_t>(k)];
        double product = random.uniform(-0.01, 0.01);
        if (g < cancelling) product = k < terms / 2 ? random.uniform(5, 15) : -sum / static_cast<double>(terms - k);
        if (g < cancelling && k == terms - 1) product += left;
        float& weight = weights[static_cast<size_t>(k * gates + g)];
        weight = static_cast<float>(product / input);
        sum += static_cast<double>(weight) * input;
      }
    }
  }

  void write(const std::string& path) const {
    const GraphWriter graph = GraphWriter()
                                  .input("x", DType::f32, {1, terms})
                                  .output("y", DType::f32, {1, gates})
                                  .initializer(TensorWriter("w", {terms, gates}, weights))
                                  .node("MatMul", {"x", "w"}, {"sum"})
                                  .node("Sigmoid", {"sum"}, {"y"});
    std::ofstream(path, std::ios::binary) << ModelWriter().opset(17).graph(graph).bytes();
  }
};

LayersVerdict judge(const Gate& model, const Gate& engine) {
  const TemporaryFolder folder;
  const std::string right = folder.file("right.onnx"), built = folder.file("built.onnx");
  model.write(right);
  engine.write(built);
  BuildOptions options;
  options.verify = false;
  options.tuning = Tuning::heuristic;
  Tensor x(DType::f32, {1, terms});
  std::copy(model.x.begin(), model.x.end(), x.as_mutable<float>());
  ThreadPool pool(1);
  return verify_layers(onnx::import_model(right, {}).graph, Builder(options).build(built), {x}, {}, pool);
}

TEST(VerifyLayers, AGateWhoseSumCancelsPasses) {
  Random random = test_random();
  for (const int64_t cancelling : {int64_t{1}, int64_t{3}, gates / 8}) {
    const Gate gate(random, cancelling, random.uniform(-1, 1));
    const LayersVerdict verdict = judge(gate, gate);
    EXPECT_EQ(verdict.culprit, "") << cancelling;
    EXPECT_GE(verdict.judged, 1);
    EXPECT_EQ(verdict.undecided, 0);
  }
}

TEST(VerifyLayers, AWrongKernelBesideACancellingSumIsRefused) {
  Random random = test_random();
  const Gate gate(random, 1, 0.5);
  Gate wrong = gate;
  // One other gate, by a thousandth of its greatest products: a change of its sum by 0.1 % of what it adds up.
  double sum = 0;
  for (int64_t k = 0; k < terms; ++k)
    sum += std::abs(static_cast<double>(gate.weights[static_cast<size_t>(k * gates + 5)]) *
                    gate.x[static_cast<size_t>(k)]);
  wrong.weights[5] += static_cast<float>(1e-3 * sum / gate.x[0]);
  const LayersVerdict verdict = judge(gate, wrong);
  EXPECT_NE(verdict.culprit.find("layer "), std::string::npos) << verdict.culprit;
  EXPECT_GT(verdict.worst, 1);
}

TEST(VerifyLayers, AWrongSumThatCancelsIsRefused) {
  Random random = test_random();
  const Gate gate(random, gates, 0.5);
  Gate wrong = gate;
  for (float& weight : wrong.weights) weight *= 1 + 1e-3F * static_cast<float>(random.uniform(-1, 1));
  EXPECT_NE(judge(gate, wrong).culprit, "") << "each product by up to a thousandth";
}

LayersVerdict judge_quantized(const GraphWriter& graph, const Tensor& x) {
  const TemporaryFolder folder;
  const std::string path = folder.file("model.onnx");
  std::ofstream(path, std::ios::binary) << ModelWriter().opset(25).graph(graph).bytes();
  BuildOptions options;
  options.verify = false;
  options.tuning = Tuning::heuristic;
  ThreadPool pool(1);
  Graph model = onnx::import_model(path, {}).graph;
  expand_quantization(model, PassContext{.pool = pool});
  return verify_layers(model, Builder(options).build(path), {x}, {}, pool);
}

Tensor numbers(Random& random, const Dims& dims) {
  Tensor made(DType::f32, dims);
  for (int64_t i = 0; i < made.size(); ++i) made.as_mutable<float>()[i] = static_cast<float>(random.uniform(-1, 1));
  return made;
}

// Engines lay images out with their channels last, and the elements of such types share bytes.
TEST(VerifyLayers, PackedImagesAreComparedInTheModelsOrder) {
  Random random = test_random();
  constexpr int64_t channels = 16, side = 9;
  for (const DType dtype : {DType::u4, DType::i4, DType::u2}) {
    std::vector<float> weights(channels * channels * 9);
    for (float& v : weights) v = static_cast<float>(random.uniform(-0.2, 0.2));
    const GraphWriter graph = GraphWriter()
                                  .input("x", DType::f32, {1, channels, side, side})
                                  .output("y", dtype, {1, channels, side - 2, side - 2})
                                  .initializer(TensorWriter("w", {channels, channels, 3, 3}, weights))
                                  .initializer(TensorWriter("scale", {}, std::vector<float>{0.25F}))
                                  .initializer(TensorWriter("zero", {}, dtype, std::string(1, '\1')))
                                  .node("Conv", {"x", "w"}, {"c"})
                                  .node("QuantizeLinear", {"c", "scale", "zero"}, {"y"});
    const LayersVerdict verdict = judge_quantized(graph, numbers(random, {1, channels, side, side}));
    EXPECT_EQ(verdict.culprit, "") << to_string(dtype);
    EXPECT_EQ(verdict.undecided, 0) << to_string(dtype);
    EXPECT_GE(verdict.judged, 1) << to_string(dtype);
  }
}

// The steps are transposed before they are dequantized, and their scale is left to the product: what the engine has of
// the transposed numbers is steps in f32, which are not those of the model.
TEST(VerifyLayers, StepsAreNotTakenForTheNumbersThatTheyAreMadeInto) {
  Random random = test_random();
  constexpr int64_t rows = 12, columns = 32;
  const GraphWriter graph = GraphWriter()
                                .input("x", DType::f32, {2, rows, columns})
                                .output("y", DType::f32, {2, rows, rows})
                                .initializer(TensorWriter("scale", {}, std::vector<float>{0.375F}))
                                .initializer(TensorWriter("zero", {}, DType::i4, std::string(1, '\0')))
                                .node("QuantizeLinear", {"x", "scale", "zero"}, {"q"})
                                .node("DequantizeLinear", {"q", "scale", "zero"}, {"d"})
                                .node("Transpose", {"d"}, {"t"}, {attr("perm", {0, 2, 1})})
                                .node("MatMul", {"x", "t"}, {"y"});
  const LayersVerdict verdict = judge_quantized(graph, numbers(random, {2, rows, columns}));
  EXPECT_EQ(verdict.culprit, "");
  EXPECT_GE(verdict.judged, 1);
}

}  // namespace
}  // namespace camshaft::verify_layers_test

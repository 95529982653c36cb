// ai.onnx.ml and text operators, imported and evaluated.
#include <cmath>
#include <limits>

#include "onnx/import_test_util.h"

namespace camshaft::onnx::import_machine_learning_test {
namespace {

using namespace testing;

std::vector<Tensor> run_ml(const std::string& op_type, const Tensor& x, const std::vector<AttributeWriter>& attributes,
                           const std::vector<std::string>& outputs = {"y"}, const std::string& domain = "ai.onnx.ml") {
  GraphWriter graph;
  graph.input("x", x.dtype(), ShapeWriter(x.dims().begin(), x.dims().end()));
  for (const std::string& name : outputs) graph.output(name, DType::f32);
  graph.node(op_type, {"x"}, outputs, attributes, domain);
  ModelWriter model;
  model.opset(5, "ai.onnx.ml").opset(20).opset(1, "com.microsoft").graph(graph);
  return run(import_bytes(model.bytes()).graph, {x});
}

Tensor words(const Dims& dims, const std::vector<std::string>& values) {
  return Tensor::of<std::string>(DType::string, dims, values);
}

/// x0 <= 1 ? (x1 < 0 ? leaf : leaf) : leaf, with weights of the leaves in that order.
std::vector<AttributeWriter> one_tree(const std::string& what, const std::vector<float>& weights) {
  using Ints = std::vector<int64_t>;
  return {attr("nodes_treeids", Ints{0, 0, 0, 0, 0}),
          attr("nodes_nodeids", Ints{0, 1, 2, 3, 4}),
          attr("nodes_featureids", Ints{0, 1, 0, 0, 0}),
          attr("nodes_values", std::vector<float>{1, 0, 0, 0, 0}),
          attr("nodes_modes", {"BRANCH_LEQ", "BRANCH_LT", "LEAF", "LEAF", "LEAF"}),
          attr("nodes_truenodeids", Ints{1, 3, 0, 0, 0}),
          attr("nodes_falsenodeids", Ints{2, 4, 0, 0, 0}),
          attr("nodes_missing_value_tracks_true", Ints{1, 0, 0, 0, 0}),
          attr(what + "_treeids", Ints{0, 0, 0}),
          attr(what + "_nodeids", Ints{3, 4, 2}),
          attr(what + "_ids", Ints{0, 0, 0}),
          attr(what + "_weights", weights)};
}

TEST(MachineLearning, ATreeBranchesAndSendsNanWhereItIsTold) {
  auto attributes = one_tree("target", {10, 20, 30});
  attributes.push_back(attr("n_targets", int64_t{1}));
  attributes.push_back(attr("base_values", std::vector<float>{0.5F}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = floats({5, 2}, {1, -1, 1, 0, 1.0000001F, 0, nan, -1, 0, nan});
  expect_near(run_ml("TreeEnsembleRegressor", x, attributes)[0], {5, 1}, {10.5, 20.5, 30.5, 10.5, 20.5});
}

TEST(MachineLearning, ADoubleIsComparedUnrounded) {
  auto attributes = one_tree("target", {10, 20, 30});
  attributes.push_back(attr("n_targets", int64_t{1}));
  const Tensor x = Tensor::of<double>(DType::f64, {2, 2}, {1, 0, 1 + 1e-12, 0});
  expect_near(run_ml("TreeEnsembleRegressor", x, attributes)[0], {2, 1}, {20, 30});
}

TEST(MachineLearning, TwoClassesWithPositiveWeightsForOneAreDecidedAtOneHalf) {
  auto attributes = one_tree("class", {0.25F, 0.5F, 0.75F});
  attributes.push_back(attr("classlabels_strings", {"no", "yes"}));
  const Tensor x = floats({3, 2}, {1, -1, 1, 0, 2, 0});
  const auto outputs = run_ml("TreeEnsembleClassifier", x, attributes, {"label", "scores"});
  EXPECT_EQ(outputs[0], words({3}, {"no", "no", "yes"}));
  expect_near(outputs[1], {3, 2}, {0.75, 0.25, 0.5, 0.5, 0.25, 0.75});
}

TEST(MachineLearning, ACycleOfTreeNodesIsRefused) {
  auto attributes = one_tree("target", {10, 20, 30});
  attributes[5] = attr("nodes_truenodeids", std::vector<int64_t>{1, 0, 0, 0, 0});
  attributes.push_back(attr("n_targets", int64_t{1}));
  // Nothing is a root then, or a node is reached twice: an answer or an error, but no endless walk.
  try {
    run_ml("TreeEnsembleRegressor", floats({1, 2}, {0, -1}), attributes);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_model) << e.what();
  }
}

TEST(MachineLearning, LabelEncoderMapsNanAndTakesTheLastOfEqualKeys) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto y = run_ml("LabelEncoder", floats({4}, {2, nan, 7, 1}),
                        {attr("keys_floats", std::vector<float>{nan, 2, 1, 2}),
                         attr("values_strings", {"nan", "two", "one", "two again"}), attr("default_string", "none")});
  EXPECT_EQ(y[0], words({4}, {"two again", "nan", "none", "one"}));
}

TEST(MachineLearning, OneHotEncoderKeepsTheOrderOfItsCategories) {
  const std::vector<AttributeWriter> categories{attr("cats_strings", {"b", "a", "c"})};
  expect_near(run_ml("OneHotEncoder", words({2, 1}, {"a", "x"}), categories)[0], {2, 1, 3}, {0, 1, 0, 0, 0, 0});
  auto strict = categories;
  strict.push_back(attr("zeros", int64_t{0}));
  EXPECT_THROW(run_ml("OneHotEncoder", words({1}, {"x"}), strict), Error);
}

// Few categories are rows of a table, many are compared.
TEST(MachineLearning, OneHotEncoderOfFewAndManyCategories) {
  for (const int64_t count : {1, 7, 90, 91, 200}) {
    std::vector<int64_t> categories, x;
    for (int64_t i = 0; i < count; ++i) categories.push_back(3 * ((i * 11 + 2) % count) - 5);
    if (count > 2) categories[2] = categories[1];  // of equal ones the last is meant
    for (int64_t i = -8; i < 3 * count; ++i) x.push_back(i);
    std::vector<double> want;
    for (const int64_t value : x)
      for (int64_t k = 0; k < count; ++k)
        want.push_back(categories[static_cast<size_t>(k)] == value && !(count > 2 && k == 1));
    const auto size = std::ssize(x);
    const auto y = run_ml("OneHotEncoder", Tensor::from_ints(x), {attr("cats_int64s", categories)});
    expect_near(y[0], {size, count}, want);
  }
}

TEST(MachineLearning, NormalizerLeavesRowsOfZeros) {
  const Tensor x = floats({2, 2}, {3, -4, 0, 0});
  expect_near(run_ml("Normalizer", x, {attr("norm", "L2")})[0], {2, 2}, {0.6, -0.8, 0, 0});
  expect_near(run_ml("Normalizer", x, {attr("norm", "L1")})[0], {2, 2}, {3 / 7.0, -4 / 7.0, 0, 0});
  expect_near(run_ml("Normalizer", x, {attr("norm", "MAX")})[0], {2, 2}, {1, -4 / 3.0, 0, 0});
}

TEST(MachineLearning, ImputerReplacesNanByFeature) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto y = run_ml("Imputer", floats({2, 2}, {nan, 1, 2, nan}),
                        {attr("imputed_value_floats", std::vector<float>{5, 6}), attr("replaced_value_float", nan)});
  expect_near(y[0], {2, 2}, {5, 1, 2, 6});
}

// Two vectors a class; decisions by hand: k = (x·s), d = Σ c·k + rho.
TEST(MachineLearning, SupportVectorsVote) {
  const std::vector<AttributeWriter> attributes{
      attr("vectors_per_class", std::vector<int64_t>{1, 1}), attr("support_vectors", std::vector<float>{1, 0, 0, 1}),
      attr("coefficients", std::vector<float>{1, -1}), attr("rho", std::vector<float>{0.5F}),
      attr("classlabels_ints", std::vector<int64_t>{7, 9})};
  const auto outputs = run_ml("SVMClassifier", floats({2, 2}, {1, 1, 0, 2}), attributes, {"label", "scores"});
  EXPECT_EQ(outputs[0], Tensor::from_ints({7, 9}));
  expect_near(outputs[1], {2, 2}, {-0.5, 0.5, 1.5, -1.5});
}

TEST(Texts, StopWordsAreFoundInAnyCaseOfAnyScript) {
  const auto y = run_ml("StringNormalizer", words({4}, {"ÄPFEL", "und", "Груши", "Ωmega"}),
                        {attr("stopwords", {"Und", "äpfel"}), attr("case_change_action", "LOWER")}, {"y"}, "");
  EXPECT_EQ(y[0], words({2}, {"груши", "ωmega"}));
}

TEST(Texts, SplitFillsUp) {
  const auto y =
      run_ml("StringSplit", words({3}, {" a  b c ", "", "d"}), {attr("maxsplit", int64_t{1})}, {"y", "n"}, "");
  EXPECT_EQ(y[0], words({3, 2}, {"a", "b c", "", "", "d", ""}));
  EXPECT_EQ(y[1], Tensor::from_ints({2, 0, 1}));
}

TEST(Texts, TokensAreTheLongestMatches) {
  const auto y = run_ml("Tokenizer", words({2}, {"ab, c42!", ""}),
                        {attr("tokenexp", "[a-z]+[0-9]*"), attr("pad_value", "#"), attr("mark", int64_t{0}),
                         attr("mincharnum", int64_t{1})},
                        {"y"}, "com.microsoft");
  EXPECT_EQ(y[0], words({2, 2}, {"ab", "c42", "#", "#"}));
}

}  // namespace
}  // namespace camshaft::onnx::import_machine_learning_test

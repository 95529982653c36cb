// Models that no exporter writes, found by fuzzing: each is refused with a reason.
#include <limits>

#include "onnx/import_test_util.h"

namespace camshaft::onnx {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the writers are this file's language

/// The message of the Error(invalid_model) that importing throws.
std::string refusal(const GraphWriter& graph, const std::string& domain = "com.microsoft", int64_t opset = 23) {
  try {
    import_bytes(ModelWriter().opset(opset).opset(1, domain).graph(graph).bytes());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_model) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "the model was taken";
  return {};
}

GraphWriter one_node(const std::string& op, const std::vector<std::string>& inputs, const std::string& domain = "") {
  return GraphWriter().output("y", DType::f32).node(op, inputs, {"y"}, {}, domain);
}

TEST(ImportMalformed, NumbersAreNeededWhereStringsAre) {
  for (const char* op : {"Mish", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Gelu", "Relu", "Mean"})
    EXPECT_NE(refusal(one_node(op, {"x"}).input("x", DType::string, {2})).find(op), std::string::npos) << op;
}

TEST(ImportMalformed, TensorsAreNeededWhereSequencesAre) {
  for (const char* op : {"Mish", "Relu", "QuantizeLinear", "DequantizeLinear", "Shape"}) {
    const GraphWriter graph =
        one_node(op, {"s", "s", "s"}).input("x", DType::f32, {2}).node("SequenceConstruct", {"x"}, {"s"});
    EXPECT_NE(refusal(graph).find(op), std::string::npos) << op;
  }
}

TEST(ImportMalformed, InputsLeftOut) {
  EXPECT_NE(refusal(one_node("DequantizeLinear", {}, "com.microsoft")).find("missing"), std::string::npos);
  EXPECT_NE(refusal(one_node("QuantizeLinear", {}, "com.microsoft")).find("missing"), std::string::npos);
}

TEST(ImportMalformed, ScalarsWhereAxesAreNeeded) {
  const auto scalars = [](const GraphWriter& graph) {
    return GraphWriter(graph)
        .input("a", DType::f32, ShapeWriter{})
        .input("b", DType::f32, ShapeWriter{})
        .input("c", DType::f32, ShapeWriter{});
  };
  for (const char* op : {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})
    EXPECT_NE(refusal(scalars(one_node(op, {"a", "b", "c"}, "com.microsoft"))).find("0 axes"), std::string::npos) << op;
  const GraphWriter skip =
      GraphWriter()
          .input("x", DType::f32, {1, 2, 2, 4})
          .input("scale", DType::f32, {4})
          .input("s", DType::f32, ShapeWriter{})
          .output("y", DType::f32)
          .node("SkipGroupNorm", {"x", "scale", "scale", "s"}, {"y"}, {attr("groups", 2)}, "com.microsoft");
  EXPECT_NE(refusal(skip).find("0 axes cannot be added to 4"), std::string::npos);
  EXPECT_NE(refusal(scalars(one_node("FlexAttention", {"a", "b", "c"}, "ai.onnx.preview")), "ai.onnx.preview")
                .find("takes 4 axes, got 0"),
            std::string::npos);
}

TEST(ImportMalformed, NegativeSizes) {
  const GraphWriter graph = one_node("MelWeightMatrix", {"bins", "length", "rate", "low", "high"})
                                .initializer(TensorWriter("bins", {}, std::vector<int32_t>{8}))
                                .initializer(TensorWriter("length", {}, std::vector<int32_t>{-2041199379}))
                                .initializer(TensorWriter("rate", {}, std::vector<int32_t>{8192}))
                                .initializer(TensorWriter("low", {}, std::vector<float>{0}))
                                .initializer(TensorWriter("high", {}, std::vector<float>{4096}));
  EXPECT_NE(refusal(graph).find("-10205996"), std::string::npos);
}

TEST(ImportMalformed, MoreElementsThanCanBeCounted) {
  const GraphWriter graph = one_node("Tile", {"x", "repeats"})
                                .input("x", DType::f32, {1, "n", 1})
                                .initializer(TensorWriter("repeats", {3}, std::vector<int64_t>{1L << 40, 1, 1L << 40}));
  EXPECT_NE(refusal(graph).find("larger than any memory"), std::string::npos);
}

TEST(ImportMalformed, NoPieces) {
  const GraphWriter graph = one_node("SplitToSequence", {"x", "lengths"})
                                .input("x", DType::f32, {2})
                                .initializer(TensorWriter("lengths", {1, 0}, std::vector<int64_t>{}));
  EXPECT_NE(refusal(graph).find("one number or a list"), std::string::npos);
}

TEST(ImportMalformed, ImagesOfTooManyAxes) {
  // 4^32 taps of a cubic sample, which 64 bits cannot count.
  ShapeWriter image_shape(34, 1), grid_shape(34, 1);
  grid_shape.back() = 32;
  const GraphWriter graph = GraphWriter()
                                .input("x", DType::f32, image_shape)
                                .input("grid", DType::f32, grid_shape)
                                .output("y", DType::f32)
                                .node("GridSample", {"x", "grid"}, {"y"}, {attr("mode", "cubic")});
  EXPECT_NE(refusal(graph).find("images of 32 axes"), std::string::npos);
}

TEST(ImportMalformed, MoreAxesSqueezedThanThereAre) {
  const GraphWriter graph =
      one_node("Squeeze", {"x", "axes"}).input("x", DType::f32, {1}).input("axes", DType::i64, {3});
  EXPECT_NE(refusal(graph).find("cannot be squeezed to -2"), std::string::npos);
}

TEST(ImportMalformed, WeightsBeyondCounting) {
  const GraphWriter graph = GraphWriter()
                                .input("a", DType::f32, {1, 8})
                                .input("b", DType::u8, {1, 1, 4})
                                .input("scales", DType::f32, {1})
                                .output("y", DType::f32)
                                .node("MatMulNBits", {"a", "b", "scales"}, {"y"},
                                      {attr("N", 1), attr("K", std::numeric_limits<int64_t>::max()),
                                       attr("block_size", std::numeric_limits<int64_t>::max() - 7)},
                                      "com.microsoft");
  EXPECT_NE(refusal(graph).find("attribute 'K'"), std::string::npos);
}

TEST(ImportMalformed, ATrillionAxes) {
  const GraphWriter graph =
      one_node("Reshape", {"x", "shape"}).input("x", DType::f32, {2}).input("shape", DType::i64, {1000000000000});
  EXPECT_NE(refusal(graph).find("1000000000000 axes"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::onnx

// Models that no exporter writes, found by fuzzing: each is refused with a reason.
#include <limits>

#include "onnx/import_test_util.h"

namespace camshaft::onnx::import_malformed_test {
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

constexpr int64_t huge = std::numeric_limits<int64_t>::max();
constexpr int64_t many = most_tensor_elements;

TEST(ImportMalformed, NumbersThatOverflowTogether) {
  const auto image = [](const std::string& op, const std::vector<AttributeWriter>& attributes) {
    return GraphWriter()
        .input("x", DType::f32, {1, 1, 2, 2})
        .input("w", DType::f32, {1, 1, 2, 2})
        .output("y", DType::f32)
        .node(op, {"x", "w"}, {"y"}, attributes);
  };
  for (const GraphWriter& graph :
       {image("Conv", {attr("auto_pad", "SAME_UPPER"), attr("dilations", {huge, huge - 1})}),
        image("ConvTranspose", {attr("auto_pad", "SAME_UPPER"), attr("dilations", {huge - 1, huge - 1}),
                                attr("output_padding", {huge, huge})}),
        image("MaxPool",
              {attr("auto_pad", "SAME_LOWER"), attr("kernel_shape", {huge, huge}), attr("dilations", {huge, huge})}),
        image("DepthToSpace", {attr("blocksize", huge)}), image("SpaceToDepth", {attr("blocksize", huge - 2)})})
    EXPECT_NE(refusal(graph).find("(y)'"), std::string::npos);
  const GraphWriter axes =
      one_node("Unsqueeze", {"x", "axes"}).input("x", DType::f32, {2}).input("axes", DType::i64, {many});
  EXPECT_NE(refusal(axes).find("144115188075855871 axes"), std::string::npos);
}

TEST(ImportMalformed, ScalesBeyondCounting) {
  const GraphWriter graph = one_node("Resize", {"x", "", "scales"})
                                .input("x", DType::f32, {"n"})
                                .initializer(TensorWriter("scales", {1}, std::vector<float>{3e38F}));
  // That the size cannot be told is no error: running says that it is too large.
  EXPECT_EQ(op_names(import_graph(graph, 23)), std::vector<std::string>{"dynamic_resize"});
}

TEST(ImportMalformed, PiecesThatOverflowTogether) {
  const GraphWriter graph = GraphWriter()
                                .input("x", DType::u2, {huge / 64})
                                .initializer(TensorWriter("length", {}, std::vector<int64_t>{huge}))
                                .output("n", DType::i64)
                                .node("SplitToSequence", {"x", "length"}, {"s"})
                                .node("SequenceLength", {"s"}, {"n"});
  EXPECT_EQ(type_of_output(import_graph(graph, 23)), "i64[]");
}

TEST(ImportMalformed, MoreAxesThanThereCanBe) {
  EXPECT_NE(refusal(one_node("Relu", {"x"}).input("x", DType::f32, ShapeWriter(65, 1))).find("has 65 axes"),
            std::string::npos);
  const GraphWriter reshaped = one_node("Reshape", {"x", "shape"})
                                   .input("x", DType::f32, {1})
                                   .initializer(TensorWriter("shape", {65}, std::vector<int64_t>(65, 1)));
  EXPECT_NE(refusal(reshaped).find("65 axes"), std::string::npos);
  std::vector<int64_t> axes(100);
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  const GraphWriter unsqueezed =
      one_node("Unsqueeze", {"x", "axes"}).input("x", DType::f32, {1}).initializer(TensorWriter("axes", {100}, axes));
  EXPECT_NE(refusal(unsqueezed).find("101 axes"), std::string::npos);
  const GraphWriter columns = GraphWriter()
                                  .input("x", DType::f32, {1, 4, 4})
                                  .input("image", DType::i64, {many})
                                  .input("block", DType::i64, {many})
                                  .output("y", DType::f32)
                                  .node("Col2Im", {"x", "image", "block"}, {"y"});
  EXPECT_NE(refusal(columns).find("144115188075855871 axes"), std::string::npos);
}

TEST(ImportMalformed, PositionIdsOfAnotherRank) {
  const GraphWriter graph =
      GraphWriter()
          .input("q", DType::f32, {1, 2, 8})
          .input("total", DType::i32, {1})
          .input("angles", DType::f32, {4, 2})
          .input("at", DType::i64, ShapeWriter{})
          .output("y", DType::f32)
          .node("GroupQueryAttention", {"q", "q", "q", "", "", "total", "total", "angles", "angles", "at"}, {"y"},
                {attr("num_heads", 2), attr("kv_num_heads", 2), attr("do_rotary", 1)}, "com.microsoft");
  EXPECT_NE(refusal(graph).find("position ids have 0 axes"), std::string::npos);
}

TEST(ImportMalformed, NarrowIntegersAreNotNormalised) {
  GraphWriter graph = one_node("BatchNormalization", {"x", "c", "c", "c", "c"}).input("x", DType::i4, {1, 8});
  graph.initializer(TensorWriter("c", {8}, std::vector<float>(8, 1)));
  EXPECT_NE(refusal(graph).find("not i4"), std::string::npos);
}

TEST(ImportMalformed, SequencesAreNotScanned) {
  const GraphWriter body =
      GraphWriter("body").input("s", DType::f32).output("n", DType::i64).node("SequenceLength", {"s"}, {"n"});
  const GraphWriter graph = GraphWriter()
                                .input("x", DType::f32, {2})
                                .output("y", DType::i64)
                                .node("SequenceConstruct", {"x"}, {"s"})
                                .node("Scan", {"s"}, {"y"}, {attr("num_scan_inputs", 1), attr("body", body)});
  EXPECT_NE(refusal(graph).find("cannot be scanned"), std::string::npos);
}

TEST(ImportMalformed, AttributesOfAFunctionOutsideOfOne) {
  GraphWriter constant = GraphWriter().output("y", DType::f32);
  constant.node("Constant", {}, {"y"}, {attr_ref("value", "given", AttributeType::tensor)});
  EXPECT_NE(refusal(constant).find("attribute 'value' refers to 'given'"), std::string::npos);
  GraphWriter branch = GraphWriter().input("c", DType::boolean, ShapeWriter{}).output("y", DType::f32);
  branch.node("If", {"c"}, {"y"},
              {attr_ref("then_branch", "g", AttributeType::graph), attr_ref("else_branch", "g", AttributeType::graph)});
  EXPECT_NE(refusal(branch).find("attribute 'then_branch' refers to 'g'"), std::string::npos);
}

// What doubles with every step is found once a step.
TEST(ImportMalformed, ValuesReachedInManyWays) {
  GraphWriter sums = GraphWriter().input("x", DType::f32, {"n"}).output("y", DType::i64);
  sums.node("Shape", {"x"}, {"n"}).node("Cast", {"n"}, {"s0"}, {attr("to", int64_t{dtype_to_onnx(DType::f32)})});
  for (int i = 0; i < 31; ++i)
    sums.node("Add", {"s" + std::to_string(i), "s" + std::to_string(i)}, {"s" + std::to_string(i + 1)});
  sums.node("Cast", {"s31"}, {"y"}, {attr("to", int64_t{dtype_to_onnx(DType::i64)})});
  EXPECT_EQ(import_graph(sums, 23).nodes.back().op.name(), "dims");

  GraphWriter joined = GraphWriter().input("x", DType::f32, {"n"}).output("y", DType::f32);
  joined.node("Shape", {"x"}, {"n"})
      .initializer(TensorWriter("matrix", {2}, std::vector<int64_t>{1, 1}))
      .initializer(TensorWriter("none", {1}, std::vector<int64_t>{0}))
      .initializer(TensorWriter("flat", {1}, std::vector<int64_t>{-1}))
      .node("Reshape", {"n", "matrix"}, {"m"})
      .node("Slice", {"m", "none", "none"}, {"s0"});
  for (int i = 0; i < 100; ++i)
    joined.node("Concat", {"s" + std::to_string(i), "s" + std::to_string(i)}, {"s" + std::to_string(i + 1)},
                {attr("axis", 0)});
  joined.node("Reshape", {"s100", "flat"}, {"shape"}).node("Expand", {"x", "shape"}, {"y"});
  import_graph(joined, 23);
}

TEST(ImportMalformed, FunctionsInFunctionsWithoutEnd) {
  ModelWriter model;
  model.opset(23)
      .opset(1, "local")
      .graph(GraphWriter().input("x", DType::f32, {1}).output("y", DType::f32).node("F0", {"x"}, {"y"}, {}, "local"));
  for (int i = 0; i < 20000; ++i)
    model.function(FunctionWriter("local", "F" + std::to_string(i))
                       .input("x")
                       .output("y")
                       .opset(23)
                       .opset(1, "local")
                       .node("F" + std::to_string(i + 1), {"x"}, {"y"}, {}, "local"));
  EXPECT_NE(std::string(import_error(model.bytes()).what()).find("deeper than 100"), std::string::npos);
}

TEST(ImportMalformed, ColumnsBeyondMemory) {
  GraphWriter with = GraphWriter().input("x", DType::i64, {2}).output("y", DType::f32);
  with.node("TfIdfVectorizer", {"x"}, {"y"},
            {attr("mode", "TF"), attr("min_gram_length", 1), attr("max_gram_length", 1), attr("max_skip_count", 0),
             attr("ngram_counts", {0}), attr("ngram_indexes", {(1 << 30) - 1}), attr("pool_int64s", {7})});
  EXPECT_NE(refusal(with).find("ngram_indexes has 1073741823"), std::string::npos);
}

TEST(ImportMalformed, InputsNamedLikeSizesThatRunningTells) {
  const GraphWriter graph =
      GraphWriter().input("@y", DType::f32, {any_dim}).output("y", DType::i64).node("NonZero", {"@y"}, {"y"});
  EXPECT_EQ(type_of_output(import_graph(graph, 23)), "i64[1, @y.1]");
  EXPECT_EQ(to_string(import_graph(graph, 23).type(0)), "f32[_@y.0]");
}

}  // namespace
}  // namespace camshaft::onnx::import_malformed_test

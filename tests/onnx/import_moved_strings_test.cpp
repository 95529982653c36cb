// Operators that only move elements, on strings: every one of the default domain whose inputs may be strings.
#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_moved_strings_test {
namespace {

using Strings = std::vector<std::string>;
using Ints = std::vector<int64_t>;

Tensor words(const Dims& dims, const Strings& values) {
  return Tensor::of<std::string>(DType::string, dims, values);
}
Tensor ints(const Dims& dims, const Ints& values) {
  return Tensor::of<int64_t>(DType::i64, dims, values);
}
Tensor bools(const std::vector<uint8_t>& values) {
  return Tensor::of<uint8_t>(DType::boolean, {static_cast<int64_t>(values.size())}, values);
}

const std::string long_text = "a text that does not fit into the object itself";
const Tensor square = words({2, 2}, {"a", long_text, "", "d"});

TEST(ImportMovedStrings, Pieces) {
  EXPECT_EQ(run_node("Concat", 17, {square, words({1, 2}, {"x", "y"})}, {attr("axis", 0)}),
            words({3, 2}, {"a", long_text, "", "d", "x", "y"}));
  EXPECT_EQ(run_node("Slice", 17, {square, ints({1}, {-1}), ints({1}, {-9}), ints({1}, {1}), ints({1}, {-1})}),
            words({2, 2}, {long_text, "a", "d", ""}));
  EXPECT_EQ(run_node("Split", 17, {square}, {attr("axis", 1), attr("num_outputs", 1)}), square);
  EXPECT_EQ(run_node("Compress", 17, {square, bools({0, 1})}, {attr("axis", 1)}), words({2, 1}, {long_text, "d"}));
  EXPECT_EQ(run_node("Gather", 17, {square, ints({2}, {-1, 0})}), words({2, 2}, {"", "d", "a", long_text}));
  EXPECT_EQ(run_node("GatherElements", 17, {square, ints({1, 2}, {1, 0})}), words({1, 2}, {"", long_text}));
  EXPECT_EQ(run_node("GatherND", 17, {square, ints({1, 2}, {0, 1})}), words({1}, {long_text}));
}

TEST(ImportMovedStrings, Shapes) {
  EXPECT_EQ(run_node("Reshape", 17, {square, ints({1}, {-1})}), square.reshaped({4}));
  EXPECT_EQ(run_node("Flatten", 17, {square}, {attr("axis", 0)}), square.reshaped({1, 4}));
  EXPECT_EQ(run_node("Unsqueeze", 17, {square, ints({1}, {0})}), square.reshaped({1, 2, 2}));
  EXPECT_EQ(run_node("Squeeze", 17, {square.reshaped({2, 1, 2})}), square);
  EXPECT_EQ(run_node("Transpose", 17, {square}), words({2, 2}, {"a", "", long_text, "d"}));
  EXPECT_EQ(run_node("Identity", 17, {square}), square);
  EXPECT_EQ(run_node("Shape", 17, {square}), ints({2}, {2, 2}));
  EXPECT_EQ(run_node("Size", 17, {square}), ints({}, {4}));
  EXPECT_EQ(run_node("DepthToSpace", 17, {square.reshaped({1, 4, 1, 1})}, {attr("blocksize", 2)}),
            square.reshaped({1, 1, 2, 2}));
  EXPECT_EQ(run_node("SpaceToDepth", 17, {square.reshaped({1, 1, 2, 2})}, {attr("blocksize", 2)}),
            square.reshaped({1, 4, 1, 1}));
}

TEST(ImportMovedStrings, Repeats) {
  EXPECT_EQ(run_node("Expand", 17, {words({2, 1}, {"a", long_text}), ints({2}, {1, 2})}),
            words({2, 2}, {"a", "a", long_text, long_text}));
  EXPECT_EQ(run_node("Tile", 17, {words({2}, {"a", "b"}), ints({1}, {2})}), words({4}, {"a", "b", "a", "b"}));
  EXPECT_EQ(run_node("Pad", 19, {words({2}, {"a", "b"}), ints({2}, {1, 2})}), words({5}, {"", "a", "b", "", ""}));
  EXPECT_EQ(run_node("Pad", 19, {words({2}, {"a", "b"}), ints({2}, {1, -1}), words({}, {long_text})}),
            words({2}, {long_text, "a"}));
  EXPECT_EQ(run_node("Pad", 19, {words({3}, {"a", "b", "c"}), ints({2}, {1, 1})}, {attr("mode", "reflect")}),
            words({5}, {"b", "a", "b", "c", "b"}));
  EXPECT_EQ(run_node("CenterCropPad", 18, {words({2}, {"a", "b"}), ints({1}, {4})}), words({4}, {"", "a", "b", ""}));
  EXPECT_EQ(run_node("Upsample", 9, {words({1, 2}, {"a", "b"}), floats({2}, {1, 2})}),
            words({1, 4}, {"a", "a", "b", "b"}));
}

TEST(ImportMovedStrings, Choices) {
  EXPECT_EQ(run_node("Where", 17, {bools({1, 0}), square, words({}, {"-"})}), words({2, 2}, {"a", "-", "", "-"}));
  EXPECT_EQ(run_node("Equal", 19, {square, words({}, {long_text})}), bools({0, 1, 0, 0}).reshaped({2, 2}));
  EXPECT_EQ(run_node("OneHot", 17, {ints({2}, {0, -1}), ints({}, {2}), words({2}, {"off", "on"})}),
            words({2, 2}, {"on", "off", "off", "on"}));
  EXPECT_EQ(run_node("Unique", 17, {words({4}, {"b", "a", "b", ""})}), words({3}, {"", "a", "b"}));
  EXPECT_EQ(run_node("Trilu", 17, {square}), words({2, 2}, {"a", long_text, "", "d"}));
  EXPECT_EQ(run_node("Trilu", 17, {square}, {attr("upper", 0)}), words({2, 2}, {"a", "", "", "d"}));
  EXPECT_EQ(run_node("NonZero", 17, {words({3}, {"0", "", "a"})}), ints({1, 2}, {0, 2}));
}

TEST(ImportMovedStrings, Updates) {
  const Tensor rows = words({1, 2}, {"x", long_text});
  EXPECT_EQ(run_node("ScatterElements", 18, {square, ints({1, 2}, {1, 0}), rows}),
            words({2, 2}, {"a", long_text, "x", "d"}));
  EXPECT_EQ(run_node("ScatterND", 18, {square, ints({1, 1}, {1}), rows}),
            words({2, 2}, {"a", long_text, "x", long_text}));
  EXPECT_EQ(run_node("ReverseSequence", 17, {square, ints({2}, {2, 1})}), words({2, 2}, {"", long_text, "a", "d"}));
  EXPECT_EQ(run_node("TensorScatter", 24, {words({1, 3, 1}, {"a", "b", "c"}), words({1, 1, 1}, {"x"}), ints({1}, {1})},
                     {attr("axis", 1)}),
            words({1, 3, 1}, {"a", "x", "c"}));
}

TEST(ImportMovedStrings, NumbersAreNeeded) {
  for (const char* op_type : {"Relu", "Exp", "Add", "LeakyRelu", "ReduceSum", "Softmax", "MatMul", "CumSum", "TopK"}) {
    GraphWriter graph;
    graph.input("x", DType::string, {2, 2}).output("y", DType::string).initializer(TensorWriter("k", {1}, Ints{1}));
    Strings inputs{"x"};
    if (op_type == std::string("Add") || op_type == std::string("MatMul")) inputs.emplace_back("x");
    if (op_type == std::string("CumSum") || op_type == std::string("TopK")) inputs.emplace_back("k");
    graph.node(op_type, inputs, {"y"});
    const Error e = import_error(ModelWriter().opset(17).graph(graph).bytes());
    EXPECT_EQ(e.code(), ErrorCode::invalid_model) << op_type << ": " << e.what();
    EXPECT_NE(std::string(e.what()).find("string"), std::string::npos) << e.what();
  }
}

TEST(ImportMovedStrings, TheNearestIsPicked) {
  const Tensor x = words({1, 2, 1, 3}, {"a", "b", "c", "d", long_text, "f"});
  const Tensor grid = floats({1, 1, 4, 2}, {-1, 0, 0, 0, 0.9F, 0, 2.5F, 0});
  const auto with = [&](const char* padding) {
    return run_node("GridSample", 22, {x, grid},
                    {attr("align_corners", 1), attr("mode", "nearest"), attr("padding_mode", padding)});
  };
  EXPECT_EQ(with("zeros"), words({1, 2, 1, 4}, {"a", "b", "c", "", "d", long_text, "f", ""}));
  EXPECT_EQ(with("border"), words({1, 2, 1, 4}, {"a", "b", "c", "c", "d", long_text, "f", "f"}));
}

TEST(ImportMovedStrings, TheNearestIsPickedInEveryShape) {
  const Graph graph = import_graph(GraphWriter()
                                       .input("x", DType::string, {"n", "c", "h", "w"})
                                       .input("grid", DType::f32, {"n", "p", "q", 2})
                                       .output("y", DType::string)
                                       .node("GridSample", {"x", "grid"}, {"y"}, {attr("mode", "nearest")}),
                                   22);
  EXPECT_EQ(type_of_output(graph), "string[n, c, p, q]");
  // Of two images the same corner.
  const Tensor x = words({2, 1, 2, 2}, {"a", "b", "c", "d", "e", "f", "g", "h"});
  EXPECT_EQ(run(graph, {x, floats({2, 1, 1, 2}, {0.5F, -0.5F, 0.5F, -0.5F})})[0], words({2, 1, 1, 1}, {"b", "f"}));
  EXPECT_EQ(run(graph, {words({0, 1, 2, 2}, {}), floats({0, 1, 1, 2}, {})})[0], words({0, 1, 1, 1}, {}));
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_moved_strings_test

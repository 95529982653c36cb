#include <string_view>

#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_image_test {
namespace {

Tensor bytes(std::string_view text) {
  return Tensor::of(DType::u8, {static_cast<int64_t>(text.size())}, std::vector<uint8_t>(text.begin(), text.end()));
}

GraphWriter decoder(DType dtype, const ShapeWriter& shape, const std::vector<AttributeWriter>& attributes = {}) {
  GraphWriter graph;
  graph.input("file", dtype, shape).node("ImageDecoder", {"file"}, {"picture"}, attributes);
  graph.output("picture", DType::u8);
  return graph;
}

TEST(ImportImage, PixelFormats) {
  const Tensor file = bytes("P3 1 1 255 10 20 30");
  const auto decoded = [&](const std::vector<AttributeWriter>& attributes) {
    return run_node("ImageDecoder", 20, {file}, attributes);
  };
  EXPECT_EQ(decoded({}), Tensor::of<uint8_t>(DType::u8, {1, 1, 3}, {10, 20, 30}));
  EXPECT_EQ(decoded({attr("pixel_format", "RGB")}), Tensor::of<uint8_t>(DType::u8, {1, 1, 3}, {10, 20, 30}));
  EXPECT_EQ(decoded({attr("pixel_format", "BGR")}), Tensor::of<uint8_t>(DType::u8, {1, 1, 3}, {30, 20, 10}));
  EXPECT_EQ(decoded({attr("pixel_format", "Grayscale")}), Tensor::of<uint8_t>(DType::u8, {1, 1, 1}, {18}));
}

TEST(ImportImage, FilesOfAnyLength) {
  const Graph graph = import_graph(decoder(DType::u8, {"n"}), 20);
  EXPECT_EQ(run(graph, {bytes("P2 2 1 255 1 2")}).at(0), Tensor::of<uint8_t>(DType::u8, {1, 2, 3}, {1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(run(graph, {bytes("P3 1 1 255 1 2 3")}).at(0), Tensor::of<uint8_t>(DType::u8, {1, 1, 3}, {1, 2, 3}));
}

TEST(ImportImage, MalformedNodes) {
  const auto message = [](const GraphWriter& graph) {
    return std::string(import_error(ModelWriter().opset(20).graph(graph).bytes()).what());
  };
  EXPECT_NE(message(decoder(DType::u8, {4}, {attr("pixel_format", "CMYK")})).find("pixel_format is 'CMYK'"),
            std::string::npos);
  EXPECT_NE(message(decoder(DType::u8, {1, 4})).find("one axis, not 2"), std::string::npos);
  EXPECT_NE(message(decoder(DType::i32, {4})).find("must be u8, not i32"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_image_test

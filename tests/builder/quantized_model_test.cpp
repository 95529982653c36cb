// A small quantised network in the two forms in which ONNX Runtime's quantiser writes it, through a whole build with
// verification. All scales are powers of two, so that every value is exact and the expected one is computed in
// integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "builder/builder.h"
#include "builder/verification.h"
#include "onnx/model_writer.h"
#include "test_random.h"

namespace camshaft::quantized_model_test {
namespace {

using namespace onnx::testing;  // NOLINT: the writers

constexpr int in_channels = 2, channels = 3, size = 4, classes = 4;
constexpr double x_scale = 0x1p-4, hidden_scale = 0x1p-2, pooled_scale = 0x1p-2, fc_scale = 0x1p-5, y_scale = 0x1p2;
constexpr std::array<double, channels> w_scales = {0x1p-6, 0x1p-5, 0x1p-7};
constexpr int x_zero = 120, hidden_zero = 3, pooled_zero = 5, y_zero = 100;

uint8_t quantize(double value, double scale, int zero) {
  return static_cast<uint8_t>(std::clamp(std::nearbyint(value / scale) + zero, 0.0, 255.0));
}

class QuantizedModel : public ::testing::Test {
 protected:
  // What mostly saturates would say little.
  QuantizedModel() {
    Random random = test_random();
    do draw(random);
    while (spread() < 2);
  }

  void draw(Random& random) {
    for (float& v : x_) v = static_cast<float>(random.integer(-900, 900)) / 64;
    for (int8_t& v : w_) v = static_cast<int8_t>(random.integer(-128, 127));
    for (int32_t& v : bias_) v = static_cast<int32_t>(random.integer(-2000, 2000));
    for (int8_t& v : fc_) v = static_cast<int8_t>(random.integer(-128, 127));
  }

  int64_t spread() const {
    const std::vector<uint8_t> y = expected();
    return std::count_if(y.begin(), y.end(), [](uint8_t v) { return v > 0 && v < 255; });
  }

  std::vector<uint8_t> expected() const {
    const auto pixel = [&](int c, int row, int column) {
      if (row < 0 || column < 0 || row >= size || column >= size) return 0;
      return quantize(x_[static_cast<size_t>((c * size + row) * size + column)], x_scale, x_zero) - x_zero;
    };
    std::vector<double> pooled;
    for (int o = 0; o < channels; ++o) {
      int total = 0;
      for (int row = 0; row < size; ++row)
        for (int column = 0; column < size; ++column) {
          int sum = bias_[static_cast<size_t>(o)];
          for (int c = 0; c < in_channels; ++c)
            for (int tap = 0; tap < 9; ++tap)
              sum += w_[static_cast<size_t>((o * in_channels + c) * 9 + tap)] *
                     pixel(c, row + tap / 3 - 1, column + tap % 3 - 1);
          total += quantize(sum * x_scale * w_scales[static_cast<size_t>(o)], hidden_scale, hidden_zero) - hidden_zero;
        }
      pooled.push_back(quantize(total * hidden_scale / (size * size), pooled_scale, pooled_zero) - pooled_zero);
    }
    std::vector<uint8_t> y;
    for (int k = 0; k < classes; ++k) {
      double sum = 0;
      for (int o = 0; o < channels; ++o)
        sum += pooled[static_cast<size_t>(o)] * fc_[static_cast<size_t>(o * classes + k)];
      y.push_back(quantize(sum * pooled_scale * fc_scale, y_scale, y_zero));
    }
    return y;
  }

  GraphWriter start() const {
    GraphWriter graph;
    graph.input("x", DType::f32, {"n", in_channels, size, size}).output("y", DType::u8, {"n", classes});
    const auto number = [&](const std::string& name, double scale, int zero) {
      graph.initializer(TensorWriter(name + "_s", {}, std::vector<float>{static_cast<float>(scale)}));
      graph.initializer(TensorWriter(name + "_z", {}, std::vector<uint8_t>{static_cast<uint8_t>(zero)}));
    };
    number("x", x_scale, x_zero);
    number("h", hidden_scale, hidden_zero);
    number("p", pooled_scale, pooled_zero);
    number("y", y_scale, y_zero);
    std::vector<float> of_weights, of_bias;
    for (const double s : w_scales) {
      of_weights.push_back(static_cast<float>(s));
      of_bias.push_back(static_cast<float>(s * x_scale));
    }
    graph.initializer(TensorWriter("w", {channels, in_channels, 3, 3}, w_));
    graph.initializer(TensorWriter("w_s", {channels}, of_weights));
    graph.initializer(TensorWriter("w_z", {channels}, std::vector<int8_t>(channels)));
    graph.initializer(TensorWriter("b", {channels}, bias_));
    graph.initializer(TensorWriter("b_s", {channels}, of_bias));
    graph.initializer(TensorWriter("b_z", {channels}, std::vector<int32_t>(channels)));
    graph.initializer(TensorWriter("fc", {channels, classes}, fc_));
    graph.initializer(TensorWriter("fc_s", {}, std::vector<float>{static_cast<float>(fc_scale)}));
    graph.initializer(TensorWriter("fc_z", {}, std::vector<int8_t>{0}));
    graph.node("QuantizeLinear", {"x", "x_s", "x_z"}, {"xq"});
    return graph;
  }

  // The engine that a build writes, loaded again, on one image.
  std::vector<uint8_t> built(const GraphWriter& graph) const {
    namespace fs = std::filesystem;
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    const fs::path model = fs::path(::testing::TempDir()) / ("quantized_" + name + ".onnx");
    std::ofstream(model, std::ios::binary) << ModelWriter().opset(17).opset(1, "com.microsoft").graph(graph).bytes();
    const Engine engine = Builder().build(model.string());
    fs::remove(model);
    const Tensor x = Tensor::of<float>(DType::f32, {1, in_channels, size, size}, x_);
    const Tensor y = run_once(engine, {x}, 1).at(0);
    EXPECT_EQ(y.dims(), (Dims{1, classes}));
    return {y.as<uint8_t>(), y.as<uint8_t>() + y.size()};
  }

  std::vector<float> x_ = std::vector<float>(in_channels * size * size);
  std::vector<int8_t> w_ = std::vector<int8_t>(channels * in_channels * 9),
                      fc_ = std::vector<int8_t>(channels * classes);
  std::vector<int32_t> bias_ = std::vector<int32_t>(channels);
};

TEST_F(QuantizedModel, OperatorsBetweenQuantizationAndDequantization) {
  GraphWriter graph = start();
  graph.node("DequantizeLinear", {"xq", "x_s", "x_z"}, {"xd"});
  graph.node("DequantizeLinear", {"w", "w_s", "w_z"}, {"wd"}, {attr("axis", 0)});
  graph.node("DequantizeLinear", {"b", "b_s", "b_z"}, {"bd"}, {attr("axis", 0)});
  graph.node("Conv", {"xd", "wd", "bd"}, {"c"}, {attr("pads", {1, 1, 1, 1})});
  graph.node("QuantizeLinear", {"c", "h_s", "h_z"}, {"hq"}).node("DequantizeLinear", {"hq", "h_s", "h_z"}, {"hd"});
  graph.node("GlobalAveragePool", {"hd"}, {"p"});
  graph.node("QuantizeLinear", {"p", "p_s", "p_z"}, {"pq"}).node("DequantizeLinear", {"pq", "p_s", "p_z"}, {"pd"});
  graph.node("Flatten", {"pd"}, {"f"}).node("DequantizeLinear", {"fc", "fc_s", "fc_z"}, {"fcd"});
  graph.node("MatMul", {"f", "fcd"}, {"m"}).node("QuantizeLinear", {"m", "y_s", "y_z"}, {"y"});
  EXPECT_EQ(built(graph), expected());
}

TEST_F(QuantizedModel, OperatorsOnQuantizedTensors) {
  GraphWriter graph = start();
  graph.node("QLinearConv", {"xq", "x_s", "x_z", "w", "w_s", "w_z", "h_s", "h_z", "b"}, {"hq"},
             {attr("pads", {1, 1, 1, 1})});
  graph.node("QLinearGlobalAveragePool", {"hq", "h_s", "h_z", "p_s", "p_z"}, {"pq"}, {attr("channels_last", 0)},
             "com.microsoft");
  graph.node("Flatten", {"pq"}, {"f"});
  graph.node("QLinearMatMul", {"f", "p_s", "p_z", "fc", "fc_s", "fc_z", "y_s", "y_z"}, {"y"});
  EXPECT_EQ(built(graph), expected());
}

}  // namespace
}  // namespace camshaft::quantized_model_test

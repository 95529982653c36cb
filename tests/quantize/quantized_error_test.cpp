// What quantised layers compute is as near to what they stand for as their steps allow, also where that is known to go
// wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "base/thread_pool.h"
#include "ir/ops/operators.h"
#include "ir/text.h"
#include "quantize/migrate_channels.h"
#include "quantize/place_quantization.h"
#include "reference/evaluate.h"
#include "test_random.h"

namespace camshaft::quantized_error_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

Graph graph_of(const std::string& inputs, const std::string& body) {
  return parse_graph("graph \"g\" (" + inputs + ") {\n" + body + "\n}", operators());
}

Tensor tensor_of(Dims dims, const std::function<double(size_t)>& number) {
  Tensor tensor(DType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.as_mutable<float>()[i] = static_cast<float>(number(static_cast<size_t>(i)));
  return tensor;
}

Tensor normal(Dims dims, Random& random) {
  return tensor_of(std::move(dims), [&](size_t) { return random.normal(); });
}

std::vector<float> numbers(const Tensor& tensor) {
  return {tensor.as<float>(), tensor.as<float>() + tensor.size()};
}

/// Weights of these numbers instead of those in the text.
void set_constant(Graph& graph, const std::string& name, Tensor tensor) {
  for (Value& value : graph.values)
    if (value.name == name) value.constant = std::make_shared<const Tensor>(std::move(tensor));
}

/// The ranges of all that the layers read, finite numbers of it, and their channels.
Calibration calibration_of(const Graph& graph, const std::vector<Tensor>& inputs, bool with_channels) {
  std::map<std::string, Tensor> seen;
  for (size_t i = 0; i < inputs.size(); ++i) seen[graph.value(graph.inputs[i]).name] = inputs[i];
  ThreadPool pool(1);
  EvaluateOptions options;
  options.observer = [&](const Node& node, std::vector<Tensor>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) seen[graph.value(node.outputs[i]).name] = outputs[i];
  };
  evaluate(graph, inputs, pool, options);
  Calibration calibration;
  for (const std::string& name : tensors_to_calibrate(graph)) {
    TensorRange range{infinity, -infinity};
    for (const float x : numbers(seen.at(name)))
      if (std::isfinite(x)) range = {std::min(range.min, x), std::max(range.max, x)};
    calibration.ranges[name] = range;
  }
  if (with_channels)
    for (const auto& [name, channels] : channels_to_calibrate(graph)) {
      std::vector<float>& largest = calibration.channels[name];
      largest.resize(static_cast<size_t>(channels.channels));
      const std::vector<float> all = numbers(seen.at(name));
      const Dims& dims = seen.at(name).dims();
      const auto inner = static_cast<size_t>(element_count({dims.begin() + channels.axis + 1, dims.end()}));
      for (size_t i = 0; i < all.size(); ++i) {
        float& most = largest[i / inner % largest.size()];
        most = std::max(most, std::fabs(all[i]));
      }
    }
  return calibration;
}

struct Results {
  std::vector<float> exact, quantized;

  /// The root of the mean squared difference over that of what is exact.
  double error() const {
    double difference = 0, size = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      difference += std::pow(quantized[i] - exact[i], 2);
      size += std::pow(exact[i], 2);
    }
    return std::sqrt(difference / size);
  }
};

Results results_of(const Graph& graph, const std::vector<Tensor>& inputs, bool with_channels = false) {
  ThreadPool pool(1);
  Graph quantized = graph;
  for (const LayerPlacement& layer : place_quantization(quantized, calibration_of(graph, inputs, with_channels)))
    EXPECT_TRUE(layer.quantized) << layer.layer << ": " << layer.reason;
  return {numbers(evaluate(graph, inputs, pool)[0]), numbers(evaluate(quantized, inputs, pool)[0])};
}

Graph product_of(const Tensor& weights) {
  std::string text =
      "const %w: f32[" + std::to_string(weights.dims()[0]) + ", " + std::to_string(weights.dims()[1]) + "] = [0";
  for (int64_t i = 1; i < weights.size(); ++i) text += ", 0";
  Graph graph = graph_of("%x: f32[64, " + std::to_string(weights.dims()[0]) + "]", text + R"(]
    %y = matmul (%x, %w)
    return "y" = %y)");
  set_constant(graph, "w", weights);
  return graph;
}

/// What Results::error() is expected to be for x · w where channels are divided by their migration factors, weights
/// multiplied with them, and each number is then moved by at most half of a step, evenly distributed: by a variance of
/// step² / 12. There are 127 steps up to the largest number of x, and of each column of w.
///
/// The mean of the squares has the spread of some 500 independent ones (64 rows by the 11 that 16 columns of 32 weights
/// are worth, less for what the weights' steps do), 3 % once the root is taken: 15 % more is five times that.
double error_by_steps(const Tensor& x, const Tensor& w, const std::vector<float>& exact) {
  const auto rows = static_cast<size_t>(x.dims()[0]), channels = static_cast<size_t>(w.dims()[0]),
             columns = static_cast<size_t>(w.dims()[1]);
  std::vector<float> magnitudes(channels);
  for (size_t i = 0; i < rows * channels; ++i)
    magnitudes[i % channels] = std::max(magnitudes[i % channels], std::fabs(x.as<float>()[i]));
  const std::vector<float> factors = migration_factors(magnitudes);
  double largest = 0, data = 0;
  for (size_t i = 0; i < rows * channels; ++i) {
    const double number = x.as<float>()[i] / factors[i % channels];
    largest = std::max(largest, std::fabs(number));
    data += number * number;
  }
  double squares = 0;
  for (size_t j = 0; j < columns; ++j) {
    double largest_weight = 0, weights = 0;
    for (size_t c = 0; c < channels; ++c) {
      const double weight = w.as<float>()[c * columns + j] * factors[c];
      largest_weight = std::max(largest_weight, std::fabs(weight));
      weights += weight * weight;
    }
    squares += static_cast<double>(rows) * weights * std::pow(largest / 127, 2) / 12;
    squares += data * std::pow(largest_weight / 127, 2) / 12;
  }
  double size = 0;
  for (const double y : exact) size += y * y;
  return std::sqrt(squares / size);
}

// Behind a norm with three large scales, whose weights are as much smaller.
TEST(QuantizedError, OutliersOfANormDoNotCostTheOthersTheirSteps) {
  Random random = test_random();
  constexpr int64_t channels = 32;
  const auto factor = [](size_t channel) { return channel % 11 == 5 ? 64.0 : 1.0; };
  const Tensor x = tensor_of({64, channels}, [&](size_t i) { return random.normal() * factor(i % channels); }),
               w = tensor_of({channels, 16}, [&](size_t i) { return random.normal() / factor(i / 16); });
  const Graph graph = product_of(w);
  const Results evened = results_of(graph, {x}, true);
  EXPECT_LT(evened.error(), 1.15 * error_by_steps(x, w, evened.exact));
  EXPECT_LT(evened.error(), results_of(graph, {x}).error() / 4);
}

// One channel of eight is 64 times as large, the weights that read it as much smaller. What it comes through is given
// as a body that makes %x of %in.
double error_of_uneven_image(const std::string& before, int64_t groups, bool with_channels,
                             std::string* text = nullptr) {
  Random random = test_random();
  constexpr int64_t channels = 8;
  const auto factor = [](size_t channel) { return channel == 5 ? 64.0 : 1.0; };
  const int64_t read = channels / groups;
  Graph graph = graph_of("%in: f32[2, 8, 6, 6]", "const %v: f32[8, 8, 1, 1] = 0\n const %zero: f32[] = 0\n" + before +
                                                     "const %w: f32[16, " + std::to_string(read) +
                                                     R"(, 3, 3] = 0
    %y = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=)" +
                                                     std::to_string(groups) +
                                                     R"(} (%x, %w)
    return "y" = %y)");
  set_constant(graph, "v", tensor_of({8, 8, 1, 1}, [&](size_t i) { return random.normal() * factor(i / 8); }));
  set_constant(graph, "w", tensor_of({16, read, 3, 3}, [&](size_t i) {
                 const size_t row = i / 9 / static_cast<size_t>(read), column = i / 9 % static_cast<size_t>(read);
                 return random.normal() /
                        factor(row / (16 / static_cast<size_t>(groups)) * static_cast<size_t>(read) + column);
               }));
  const Tensor in = normal({2, channels, 6, 6}, random);
  if (text) {
    place_quantization(graph, calibration_of(graph, {in}, with_channels));
    *text = print(graph);
  }
  return results_of(graph, {in}, with_channels).error();
}

constexpr const char* convolution = "%x = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%in, %v)\n";
constexpr const char* rectified =
    "%c = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%in, %v)\n"
    "%x = pointwise {function=max} (%c, %zero)\n";
constexpr const char* gated =
    "%c = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%in, %v)\n"
    "%s = pointwise {function=sigmoid} (%c)\n%x = pointwise {function=mul} (%c, %s)\n";

TEST(QuantizedError, OutlyingChannelsOfImagesDoNotCostTheOthersTheirSteps) {
  for (const char* before : {convolution, rectified})
    for (const int64_t groups : {1, 2, 8}) {
      const double plain = error_of_uneven_image(before, groups, false),
                   even = error_of_uneven_image(before, groups, true);
      EXPECT_LT(even, 0.04) << before << groups;
      // A depthwise convolution of one channel has a scale of its own for each.
      EXPECT_LT(even, plain / 3) << before << groups;
    }
}

// The convolution before gives them divided, at no cost. What comes through a gate stays as it is.
TEST(QuantizedError, AConvolutionGivesItsChannelsDivided) {
  for (const char* before : {convolution, rectified}) {
    std::string text;
    error_of_uneven_image(before, 1, true, &text);
    EXPECT_NE(text.find("%x_migrated: "), std::string::npos) << text;
    EXPECT_EQ(text.find("%x_migration"), std::string::npos) << text;
  }
  std::string text;
  error_of_uneven_image(gated, 1, true, &text);
  EXPECT_EQ(text.find("migrat"), std::string::npos) << text;
}

TEST(QuantizedError, ChannelsThatAreAlikeStayAsTheyAre) {
  Random random = test_random();
  // Whose largest magnitudes are within some hundredths of each other: of normal numbers one is now and then twice.
  const Tensor x = tensor_of({64, 32}, [&](size_t) { return random.uniform(-1, 1); }), w = normal({32, 16}, random);
  const Graph graph = product_of(w);
  const Results plain = results_of(graph, {x}), even = results_of(graph, {x}, true);
  EXPECT_LT(plain.error(), 0.015);
  EXPECT_EQ(plain.quantized, even.quantized);
}

// GELU leaves little below 0 and much above.
TEST(QuantizedError, OneSidedActivations) {
  Random random = test_random();
  const Tensor x = tensor_of({64, 32}, [&](size_t) {
    const double v = random.normal() * 2;
    return v * 0.5 * (1 + std::erf(v / std::sqrt(2.0)));
  });
  EXPECT_LT(results_of(product_of(normal({32, 16}, random)), {x}).error(), 0.015);
}

TEST(QuantizedError, WeightsOfLittleOrNothingKeepTheirBias) {
  for (const char* weight : {"0", "1e-40", "1e-20", "-1e-9", "0.001"}) {
    const std::string w = weight;
    const Graph graph = graph_of("%x: f32[1, 1, 2, 2]", "const %w: f32[2, 1, 1, 1] = [" + w + R"(, 1]
      const %b: f32[2] = [3.25, -1.5]
      %y = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x, %w, %b)
      return "y" = %y)");
    const Tensor x = tensor_of({1, 1, 2, 2}, [](size_t i) { return static_cast<double>(i) - 1; });
    const Results results = results_of(graph, {x});
    for (size_t i = 0; i < results.exact.size(); ++i)
      EXPECT_NEAR(results.quantized[i], results.exact[i], 0.02) << weight << " at " << i;
  }
}

TEST(QuantizedError, TheBorderIsZeroWhateverTheZeroPoint) {
  Random random = test_random();
  const Graph graph = graph_of("%x: f32[1, 1, 5, 5]", R"(const %w: f32[1, 1, 3, 3] = [1, 1, 1, 1, 1, 1, 1, 1, 1]
      %y = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1]} (%x, %w)
      return "y" = %y)");
  for (const auto& [from, to] : {std::pair{10.0, 51.0}, {-51.0, -10.0}, {-3.0, 1.0}, {0.0, 7.0}}) {
    const Tensor x = tensor_of({1, 1, 5, 5}, [&, from = from, to = to](size_t) { return random.uniform(from, to); });
    const Results results = results_of(graph, {x});
    const double step = (std::max(to, 0.0) - std::min(from, 0.0)) / 255;
    for (size_t i = 0; i < results.exact.size(); ++i)
      EXPECT_NEAR(results.quantized[i], results.exact[i], 9 * step) << from << " to " << to << " at " << i;
  }
}

TEST(QuantizedError, AConcatenationOfDifferentScalesHasStepsForAll) {
  Random random = test_random();
  const Graph graph = graph_of("%a: f32[1, 1, 4, 4], %b: f32[1, 1, 4, 4]", R"(const %w: f32[1, 2, 1, 1] = [1, 1]
      %x = concat {axis=1} (%a, %b)
      %y = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x, %w)
      return "y" = %y)");
  const Tensor a = normal({1, 1, 4, 4}, random),
               b = tensor_of({1, 1, 4, 4}, [&](size_t) { return random.normal() * 99; });
  EXPECT_LT(results_of(graph, {a, b}).error(), 0.02);
}

// Each reader of one constant has its own factors.
TEST(QuantizedError, WeightsThatTwoLayersShare) {
  Random random = test_random();
  const std::string zeros = [] {
    std::string text = "0";
    for (int i = 1; i < 32 * 32; ++i) text += ", 0";
    return text;
  }();
  Graph graph = graph_of("%x: f32[16, 32]", "const %w: f32[32, 32] = [" + zeros + R"(]
      %a = matmul (%x, %w)
      %y = matmul (%a, %w)
      return "y" = %y)");
  set_constant(graph, "w", normal({32, 32}, random));
  const Tensor x = tensor_of({16, 32}, [&](size_t i) { return random.normal() * (i % 32 == 7 ? 20 : 1); });
  EXPECT_LT(results_of(graph, {x}).error(), 0.05);
  EXPECT_LT(results_of(graph, {x}, true).error(), 0.03);
}

// What is added to a product's result is not in steps: with weights of 0 the result is the residual, bit by bit.
TEST(QuantizedError, AResidualStreamKeepsItsOutliersAndItsSmallNumbers) {
  const Graph graph = graph_of("%x: f32[4, 2]", R"(const %w: f32[2, 2] = [0, 0, 0, 0]
      %c = matmul (%x, %w)
      %y = pointwise {function=add} (%c, %x)
      return "y" = %y)");
  const Tensor x = tensor_of({4, 2}, [](size_t i) { return i % 2 == 0 ? 1e4 + static_cast<double>(i) : 1e-5; });
  const Results results = results_of(graph, {x}, true);
  EXPECT_EQ(results.quantized, results.exact);
}

TEST(QuantizedError, InfinitiesOfAMaskSaturate) {
  Random random = test_random();
  const Graph graph = product_of(normal({32, 16}, random));
  Tensor x = normal({64, 32}, random);
  const Calibration calibration = calibration_of(graph, {x}, true);
  x.as_mutable<float>()[0] = -infinity;
  Graph quantized = graph;
  place_quantization(quantized, calibration);
  ThreadPool pool(1);
  for (const float y : numbers(evaluate(quantized, {x}, pool)[0])) EXPECT_TRUE(std::isfinite(y));
}

TEST(QuantizedError, ChannelsOfAnotherModelAreRefused) {
  Random random = test_random();
  Graph graph = product_of(normal({32, 16}, random));
  try {
    place_quantization(graph, {"", {{"x", {-1, 1}}}, {{"x", {1, 2, 3}}}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_STREQ(error.what(),
                 "the calibration has 3 channels of 'x', which has 32: it is of another model; calibrate this one");
  }
}

}  // namespace
}  // namespace camshaft::quantized_error_test

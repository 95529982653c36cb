#include "reference/rounding.h"

#include <cmath>
#include <limits>
#include <tuple>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/recurrent.h"
#include "ir/ops/reduce.h"
#include "reference/evaluate.h"
#include "reference/single_op.h"
#include "test_random.h"

namespace camshaft::rounding_test {
namespace {

Tensor scale_of(const Op& op, const std::vector<Tensor>& inputs) {
  const std::vector<TensorType> types = {{DType::f32, {}}};
  const SymbolBindings bindings;
  const std::vector<Graph> bodies;
  Graph graph;
  std::vector<ValueId> ids;
  for (const Tensor& input : inputs) {
    Shape shape;
    for (const int64_t d : input.dims()) shape.emplace_back(d);
    ids.push_back(graph.add_input("x", {input.dtype(), shape}));
  }
  const ValueId y = graph.add(op, ids, "y");
  return rounding_scale(op, EvalContext{inputs, {graph.type(y)}, bindings, bodies, test_pool()});
}

TEST(RoundingScale, OfWhatASumAddsUp) {
  EXPECT_EQ(scale_of(ops::MatMul{}, {f32({1, 4}, {1, -2, 3, 4}), f32({4, 1}, {3, 3, 2, -1})}), f32({1, 1}, {38}))
      << "(3 + 6 + 6 + 4) · √4";
  EXPECT_EQ(scale_of(ops::MatMul{true, true}, {f32({4, 1}, {1, -2, 3, 4}), f32({1, 4}, {3, 3, 2, -1})}),
            f32({1, 1}, {38}));
  EXPECT_EQ(scale_of(ops::Reduce{ops::ReduceKind::mean, {0, 1}, false}, {f32({2, 2}, {1, -1, 5, -5})}), f32({}, {6}));
  ops::Conv conv;
  conv.strides = conv.dilations = {1};
  conv.pads = {0, 0};
  EXPECT_EQ(scale_of(conv, {f32({1, 2, 2}, {1, -1, 1, 1}), f32({1, 2, 2}, {1, 1, 1, -1}), f32({1}, {-1})}),
            f32({1, 1, 1}, {10}))
      << "with the bias";
}

TEST(RoundingScale, OthersHaveNone) {
  EXPECT_FALSE(scale_of(ops::Pointwise{ScalarFunction::add}, {f32({1}, {1}), f32({1}, {-1})}).defined());
  EXPECT_FALSE(scale_of(ops::Reduce{ops::ReduceKind::max, {0}, false}, {f32({2}, {1, 2})}).defined());
}

// A simple layer of 900 inputs and no function to speak of: each result moves by what a product's does.
TEST(NoisySums, OfRecurrentLayers) {
  Random random = test_random();
  constexpr int64_t time = 3, batch = 2, in = 900, hidden = 4;
  const auto drawn = [&](const Dims& dims) {
    Tensor made(DType::f32, dims);
    for (int64_t i = 0; i < made.size(); ++i) made.as_mutable<float>()[i] = static_cast<float>(random.uniform(-1, 1));
    return made;
  };
  ops::Recurrent layer;
  layer.cell = ops::CellKind::rnn;
  layer.direction = ops::Direction::bidirectional;
  layer.activations = {"affine", "affine"};
  layer.alphas = {1, 1};
  layer.betas = {0, 0};
  const std::vector<Tensor> inputs = {drawn({time, batch, in}), drawn({2, hidden, in}),
                                      f32({2, hidden, hidden}, std::vector<float>(2 * hidden * hidden, 0))};
  const std::vector<Tensor> exact = run_op(layer, inputs);
  const std::vector<TensorType> types = {{DType::f32, {time, 2, batch, hidden}}, {DType::f32, {2, batch, hidden}}};
  const SymbolBindings bindings;
  const std::vector<Graph> bodies;
  const EvalContext context{inputs, types, bindings, bodies, test_pool()};
  const std::vector<Tensor> noisy = with_noisy_sums(layer, context, exact, 0x1p-20, random);
  ASSERT_EQ(noisy.size(), 2u);
  int more = 0;
  for (int64_t t = 0; t < time; ++t)
    for (int64_t d = 0; d < 2; ++d)
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = 0; h < hidden; ++h) {
          double sum = 0;
          for (int64_t i = 0; i < in; ++i)
            sum += std::fabs(static_cast<double>(inputs[0].as<float>()[(t * batch + b) * in + i]) *
                             inputs[1].as<float>()[(d * hidden + h) * in + i]);
          const int64_t at = ((t * 2 + d) * batch + b) * hidden + h;
          const double moved = noisy[0].as<float>()[at] - exact[0].as<float>()[at];
          EXPECT_NEAR(std::fabs(moved), 30 * sum * 0x1p-20, 1e-5);
          more += moved > 0 ? 1 : 0;
        }
  EXPECT_GT(more, 4) << "of 48";
  EXPECT_LT(more, 44);
  EXPECT_TRUE(with_noisy_sums(ops::MatMul{}, context, exact, 0x1p-20, random).empty());
}

TEST(RoundingNoise, MovesBothWaysByTheGivenParts) {
  Random random = test_random();
  const Tensor exact(f32({64}, std::vector<float>(64, 2))), scale(f32({64}, std::vector<float>(64, 1024)));
  for (const auto& [noise, moved] : {std::pair{RoundingNoise{0x1p-10, 0}, 0x1p-9F},
                                     {{0, 0x1p-14}, 0x1p-4F},
                                     {{0x1p-10, 0x1p-14}, 0x1p-9F + 0x1p-4F}}) {
    const Tensor noisy = with_noise(exact, scale, noise, random);
    int more = 0;
    for (int64_t i = 0; i < 64; ++i) {
      EXPECT_EQ(std::fabs(noisy.as<float>()[i] - 2), moved);
      more += noisy.as<float>()[i] > 2 ? 1 : 0;
    }
    EXPECT_GT(more, 4) << "of 64; below with a probability of 1e-13";
    EXPECT_LT(more, 60);
  }
  const Tensor infinite = f32({2}, {INFINITY, 1});
  const Tensor noisy = with_noise(infinite, f32({2}, {INFINITY, NAN}), {0, 1}, random);
  EXPECT_EQ(noisy, infinite) << "no bound, no noise";
}

TEST(RoundingNoise, WholeNumbersMayStay) {
  Random random = test_random();
  const RoundingNoise noise{0x1p-22, 0};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor whole = Tensor::of<double>(DType::f64, {4}, {3, -800, 0, 0x1p22});
    const auto moved = [&](const Tensor& exact, WholeNumbers whole_numbers) {
      const Tensor x = run_op(ops::Cast{dtype}, {exact})[0];
      const std::vector<double> a = x.to_doubles(), b = with_noise(x, {}, noise, random, whole_numbers).to_doubles();
      std::vector<bool> differ;
      for (size_t i = 0; i < a.size(); ++i) differ.push_back(a[i] != b[i]);
      return differ;
    };
    EXPECT_EQ(moved(whole, WholeNumbers::stay), std::vector<bool>(4, false));
    EXPECT_EQ(moved(whole, WholeNumbers::move), (std::vector<bool>{true, true, false, true}));
    EXPECT_EQ(moved(Tensor::of<double>(DType::f64, {2}, {2.5, 0x1.8p24}), WholeNumbers::stay),
              (std::vector<bool>(2, true)));
  }
  EXPECT_TRUE(keeps_whole_numbers(ops::Cast{DType::f32}));
  EXPECT_TRUE(keeps_whole_numbers(ops::Pointwise{ScalarFunction::mul}));
  EXPECT_TRUE(keeps_whole_numbers(ops::Reduce{ops::ReduceKind::max, {0}, true}));
  EXPECT_FALSE(keeps_whole_numbers(ops::Pointwise{ScalarFunction::div}));
  EXPECT_FALSE(keeps_whole_numbers(ops::MatMul{}));
}

// What a window of one element is: 0.42 - 0.5 + 0.08, of which rounding leaves -1.4e-17.
TEST(RoundingNoise, MovesWhatIsLeftOfDoubles) {
  Graph graph;
  const auto scalar = [](double x) { return Tensor::of<double>(DType::f64, {}, {x}); };
  const ValueId x = graph.add_input("x", {DType::f64, {}});
  const ValueId less = graph.add(ops::Pointwise{ScalarFunction::mul}, {x, graph.add_constant("a", scalar(-0.5))}, "l");
  const ValueId part =
      graph.add(ops::Pointwise{ScalarFunction::add}, {less, graph.add_constant("b", scalar(0.42))}, "p");
  graph.add_output("y",
                   graph.add(ops::Pointwise{ScalarFunction::add}, {part, graph.add_constant("c", scalar(0.08))}, "y"));
  EvaluateOptions options;
  const double exact = evaluate(graph, {scalar(1)}, test_pool(), options)[0].as<double>()[0];
  options.noise = {0x1p-22, 0};
  const double moved = evaluate(graph, {scalar(1)}, test_pool(), options)[0].as<double>()[0];
  EXPECT_LT(std::fabs(exact), 1e-16);
  EXPECT_GT(std::fabs(moved - exact), 0x1p-54);
  EXPECT_LT(std::fabs(moved - exact), 0x1p-50);
}

TEST(RoundingNoise, ReachesStepsThatDoNotShrink) {
  Random random = test_random();
  const Tensor exact(f32({6}, {0, 0x1p-30F, -0x1p-20F, 0x1p-14F, 1, INFINITY}));
  const float moved[] = {0, 0x1p-30F, 0x1p-25F, 0x1p-25F, 0x1p-11F};
  const Tensor noisy = with_noise(exact, {}, {0x1p-11, 0, 0x1p-25}, random);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(std::fabs(noisy.as<float>()[i] - exact.as<float>()[i]), moved[i]) << i;
  EXPECT_EQ(noisy.as<float>()[5], INFINITY);
}

// The smallest numbers have fixed steps: parts of them were rounded off again. They do not become 0, by which others
// may be divided, nor the largest ones infinite, as masks of a type's lowest number did.
TEST(RoundingNoise, OfTheSmallestAndTheLargestNumbers) {
  Random random = test_random();
  const std::tuple<DType, double, double> types[] = {{DType::f16, 0x1p-24, 65504},
                                                     {DType::bf16, 0x1p-133, 0x1.FEp127},
                                                     {DType::f32, 0x1p-149, 0x1.FFFFFEp127},
                                                     {DType::f64, 0x1p-1074, std::numeric_limits<double>::max()}};
  for (const auto& [dtype, step, largest] : types)
    for (const double exact : {step, 2 * step, 40 * step, -300 * step, 0.0, largest, -largest}) {
      const Tensor x =
          run_op(ops::Cast{dtype}, {Tensor::of<double>(DType::f64, {64}, std::vector<double>(64, exact))})[0];
      const std::vector<double> noisy = with_noise(x, {}, {0x1p-22, 0}, random).to_doubles();
      int moved = 0;
      for (const double y : noisy) {
        moved += y != exact ? 1 : 0;
        EXPECT_TRUE(exact == 0 ? y == 0 : std::isfinite(y) && y != 0 && std::signbit(y) == std::signbit(exact)) << y;
        EXPECT_LE(std::fabs(y - exact), std::fabs(exact) <= 300 * step ? 4 * step : largest);
      }
      EXPECT_GE(moved, exact == 0 ? 0 : 10) << to_string(dtype) << " " << exact;
    }
}

// Each node has its own.
TEST(RoundingNoise, OfNodes) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {1}});
  const ValueId y = graph.add(ops::Pointwise{ScalarFunction::neg}, {x}, "y");
  graph.add_output("y", y);
  graph.add_output("z", graph.add(ops::Pointwise{ScalarFunction::neg}, {y}, "z"));
  EvaluateOptions options;
  options.noise = {0.5, 0};
  options.noise_of = [&](const Node& node) { return RoundingNoise{node.outputs[0] == y ? 0.25 : 0, 0}; };
  const std::vector<Tensor> outputs = evaluate(graph, {f32({1}, {4.5F})}, test_pool(), options);
  EXPECT_EQ(std::fabs(outputs[0].as<float>()[0] + 4.5F), 1.125F);
  EXPECT_EQ(outputs[1].as<float>()[0], -outputs[0].as<float>()[0]);
}

// A product that cancels moves by more than the part of itself that other results move by.
TEST(RoundingNoise, OfAGraph) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {1, 2}});
  const ValueId w = graph.add_constant("w", f32({2, 1}, {1, -1}));
  graph.add_output("y", graph.add(ops::MatMul{}, {x, w}, "y"));
  EvaluateOptions options;
  options.noise = {0x1p-22, 0x1p-26};
  const float y = evaluate(graph, {f32({1, 2}, {4096, 4095})}, test_pool(), options)[0].as<float>()[0];
  EXPECT_NEAR(std::fabs(y - 1), 8191 * std::sqrt(2.0) * 0x1p-26, 1e-6);
}

}  // namespace
}  // namespace camshaft::rounding_test

#include "ir/ops/recurrent.h"

#include "backends/cpu/each_target.h"
#include "backends/cpu/run_node.h"
#include "backends/cpu/tactics/recurrent.h"
#include "ir/ops/recurrent_activation.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::recurrent_test {
namespace {

constexpr const char* functions[] = {"affine",  "elu",      "hardsigmoid", "leakyrelu", "relu",           "scaledtanh",
                                     "sigmoid", "softplus", "softsign",    "tanh",      "thresholdedrelu"};

Tensor scaled(Random& random, Dims dims, double size) {
  Tensor t(DType::f32, std::move(dims));
  float* to = t.as_mutable<float>();
  for (int64_t i = 0; i < t.size(); ++i) to[i] = static_cast<float>(random.uniform(-size, size));
  return t;
}

NodeTest layer(Random& random, ops::CellKind cell, int64_t time, int64_t batch, int64_t in, int64_t hidden,
               bool any_function = true) {
  ops::Recurrent op;
  op.cell = cell;
  op.direction = static_cast<ops::Direction>(random.integer(0, 2));
  op.linear_before_reset = cell == ops::CellKind::gru && random.integer(0, 1) == 1;
  op.input_forget = cell == ops::CellKind::lstm && random.integer(0, 4) == 0;
  if (random.integer(0, 4) == 0) op.clip = random.uniform(0.3, 2);
  const int64_t directions = op.direction == ops::Direction::bidirectional ? 2 : 1;
  const bool usual = !any_function || random.integer(0, 1) == 1;
  for (int64_t d = 0; d < directions; ++d)
    for (size_t i = 0; i < ops::activations_per_direction(cell); ++i) {
      const char* usual_name = i == 0 && cell != ops::CellKind::rnn ? "sigmoid" : "tanh";
      const char* name = usual ? usual_name : functions[random.integer(0, 10)];
      op.activations.emplace_back(name);
      op.alphas.push_back(ops::find_recurrent_activation(name)->alpha * random.uniform(0.5, 1));
      op.betas.push_back(ops::find_recurrent_activation(name)->beta);
    }
  const int64_t gates = cell == ops::CellKind::rnn ? 1 : cell == ops::CellKind::gru ? 3 : 4;
  // Weights small enough that no function of the list grows without bound over the steps.
  const double size = 0.5 / std::sqrt(static_cast<double>(std::max(hidden, in)));
  std::vector<Tensor> inputs{scaled(random, {time, batch, in}, 1),
                             scaled(random, {directions, gates * hidden, in}, size),
                             scaled(random, {directions, gates * hidden, hidden}, size)};
  const auto maybe = [&](Tensor t) { inputs.push_back(random.integer(0, 1) ? std::move(t) : Tensor()); };
  maybe(scaled(random, {directions, 2 * gates * hidden}, 0.3));
  Tensor lengths(DType::i32, {batch});
  for (int64_t b = 0; b < batch; ++b) lengths.as_mutable<int32_t>()[b] = static_cast<int32_t>(random.integer(0, time));
  maybe(lengths);
  maybe(scaled(random, {directions, batch, hidden}, 1));
  if (cell == ops::CellKind::lstm) {
    maybe(scaled(random, {directions, batch, hidden}, 1));
    maybe(scaled(random, {directions, 3 * hidden}, 0.5));
  }
  // Weights may be inputs of the model, all or some of them.
  std::vector<size_t> known{1, 2, 3};
  if (random.integer(0, 2) == 0) known.resize(static_cast<size_t>(random.integer(0, 2)));
  NodeTest test{op, inputs, known, "recurrent", 2e-5};
  test.outputs = static_cast<size_t>(random.integer(1, cell == ops::CellKind::lstm ? 3 : 2));
  return test;
}

TEST(Recurrent, AgreesWithTheReference) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const auto cell = static_cast<ops::CellKind>(round % 3);
      layer(random, cell, random.integer(0, 9), random.integer(round % 10 ? 1 : 0, round % 7 ? 5 : 40),
            random.integer(1, 20), random.integer(1, 50))
          .check(static_cast<int>(random.integer(1, 4)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Large enough for the threads to share the units of a step, and for several stretches of time.
TEST(Recurrent, ThreadsShareTheUnitsOfAStep) {
  Random random = test_random();
  for (int round = 0; round < 9; ++round) {
    const auto cell = static_cast<ops::CellKind>(round % 3);
    // With unbounded functions the state of so many steps grows beyond f32.
    layer(random, cell, random.integer(60, 130), random.integer(1, 3), 8, random.integer(230, 300), false)
        .check(static_cast<int>(random.integer(1, 4)));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Recurrent, NotANumberStaysInItsRow) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 12; ++round) {
      // Bounded functions: what others make of infinities depends on the last bit of a gate near 0 or 1.
      NodeTest test = layer(random, static_cast<ops::CellKind>(round % 3), 4, 3, 5, 20, false);
      Tensor bad = test.inputs[0].copy();
      float* x = bad.as_mutable<float>();
      x[5] = std::nanf("");
      x[26] = std::numeric_limits<float>::infinity();
      test.inputs[0] = bad;
      test.check(1);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(Recurrent, PackedWeightsAreRecovered) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 8; ++round) {
      const NodeTest test =
          layer(random, static_cast<ops::CellKind>(round % 3), 1, 1, random.integer(1, 9), random.integer(1, 40));
      Graph graph;
      std::vector<ValueId> ids;
      for (size_t i = 0; i < 3; ++i) ids.push_back(graph.add_constant("c" + std::to_string(i), test.inputs[i]));
      graph.add(test.op, ids, "y");
      const SymbolBindings symbols;
      const RegionView region{graph, graph.nodes.back(), symbols};
      PackedConstants packed;
      backend()->compile(region, Tactic{.name = "recurrent"}, packed);
      const auto all = packed.all();
      ASSERT_EQ(all.size(), 2u);
      for (size_t i = 0; i < 2; ++i) {
        const Tensor& raw = test.inputs[1 + i];
        EXPECT_TRUE(backend()->unpack(*all[i], raw.dtype(), raw.dims()) == raw) << all[i]->layout;
        EXPECT_THROW(backend()->unpack(*all[i], raw.dtype(), {raw.dims()[0], raw.dims()[1] + 1, raw.dims()[2]}), Error);
      }
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::recurrent_test

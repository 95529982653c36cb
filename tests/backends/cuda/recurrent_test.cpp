// Recurrent layers on a GPU, against the reference, and their text.
#include "ir/ops/recurrent.h"

#include <gtest/gtest.h>

#include "backends/cuda/codegen/recurrent_text.h"
#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/run_node.h"
#include "reference/random_tensor.h"

namespace camshaft::cuda::recurrent_test {
namespace {

using ops::CellKind;
using ops::Direction;

ops::Recurrent layer(CellKind cell, Direction direction) {
  ops::Recurrent op;
  op.cell = cell;
  op.direction = direction;
  std::vector<std::string> names = cell == CellKind::rnn   ? std::vector<std::string>{"relu"}
                                   : cell == CellKind::gru ? std::vector<std::string>{"sigmoid", "tanh"}
                                                           : std::vector<std::string>{"sigmoid", "tanh", "tanh"};
  for (int d = direction == Direction::bidirectional ? 2 : 1; d > 0; --d)
    op.activations.insert(op.activations.end(), names.begin(), names.end());
  op.alphas.assign(op.activations.size(), 0);
  op.betas.assign(op.activations.size(), 0);
  op.linear_before_reset = true;
  return op;
}

struct Sizes {
  int64_t time, batch, in, hidden;
};

// Weights that keep the state near 1.
Tensor weights(Random& random, DType dtype, const Dims& dims) {
  std::vector<double> values = random_tensor(random, dtype, dims).to_doubles();
  for (double& v : values) v *= 0.5 / std::sqrt(static_cast<double>(std::max<int64_t>(dims.back(), 1)));
  return tensor_of(dtype, dims, values);
}

void check(const ops::Recurrent& op, DType dtype, const Sizes& s, Random& random) {
  const int64_t d = op.direction == Direction::bidirectional ? 2 : 1;
  const int64_t gates = s.hidden * (op.cell == CellKind::rnn ? 1 : op.cell == CellKind::gru ? 3 : 4);
  const auto maybe = [&](const Dims& dims) {
    return random.uniform() < 0.4 ? Tensor() : random_tensor(random, dtype, dims);
  };
  std::vector<Tensor> inputs{random_tensor(random, dtype, {s.time, s.batch, s.in}),
                             weights(random, dtype, {d, gates, s.in}),
                             weights(random, dtype, {d, gates, s.hidden}),
                             maybe({d, 2 * gates}),
                             Tensor(),
                             maybe({d, s.batch, s.hidden})};
  if (op.cell == CellKind::lstm) {
    inputs.push_back(maybe({d, s.batch, s.hidden}));
    inputs.push_back(maybe({d, 3 * s.hidden}));
  }
  NodeTest test(op, inputs, "cuda_recurrent", dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 2e-3 : 1.6e-2);
  test.outputs = op.cell == CellKind::lstm ? 3 : 2;
  test.check();
}

TEST(CudaRecurrent, CellsDirectionsAndTypes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const CellKind cell : {CellKind::rnn, CellKind::gru, CellKind::lstm})
    for (const Direction direction : {Direction::forward, Direction::reverse, Direction::bidirectional})
      for (const Sizes& sizes : {Sizes{5, 3, 7, 10}, {1, 1, 70, 33}, {3, 66, 4, 40}, {2, 5, 9, 1}, {0, 2, 3, 4}})
        check(layer(cell, direction), DType::f32, sizes, random);
  check(layer(CellKind::lstm, Direction::bidirectional), DType::f16, {4, 3, 16, 24}, random);
  check(layer(CellKind::gru, Direction::forward), DType::bf16, {4, 3, 16, 24}, random);
}

TEST(CudaRecurrent, ClippedAndCoupled) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  ops::Recurrent op = layer(CellKind::lstm, Direction::forward);
  op.clip = 0.5;
  op.input_forget = true;
  for (int round = 0; round < 5; ++round) check(op, DType::f32, {6, 2, 5, 8}, random);
}

TEST(RecurrentText, Compiles) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  const auto compiles = [&](CellKind cell, DType dtype, int capability) {
    const std::string text = recurrent_text(layer(cell, Direction::forward), dtype, cell == CellKind::lstm);
    EXPECT_FALSE(compiler.compile({"recurrent", text, architecture(capability)}).empty());
  };
  compiles(CellKind::lstm, DType::f32, 90);
  compiles(CellKind::gru, DType::f16, 75);
  compiles(CellKind::rnn, DType::bf16, 100);
}

TEST(RecurrentText, WhatItLacks) {
  ops::Recurrent op = layer(CellKind::gru, Direction::bidirectional);
  EXPECT_TRUE(has_recurrent_text(op));
  op.activations[3] = "relu";
  EXPECT_FALSE(has_recurrent_text(op)) << "directions differ";
  op = layer(CellKind::gru, Direction::forward);
  op.linear_before_reset = false;
  EXPECT_FALSE(has_recurrent_text(op));
  op = layer(CellKind::rnn, Direction::forward);
  op.activations[0] = "elu";
  EXPECT_FALSE(has_recurrent_text(op));
}

}  // namespace
}  // namespace camshaft::cuda::recurrent_test

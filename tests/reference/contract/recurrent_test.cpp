#include "ir/ops/recurrent.h"

#include <cmath>

#include "reference/contract/dot_rows.h"
#include "reference/random_tensor.h"
#include "reference/single_op.h"

namespace camshaft::ops::recurrent_test {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

Recurrent layer(CellKind cell, Direction direction = Direction::forward) {
  Recurrent op;
  op.cell = cell;
  op.direction = direction;
  for (int d = 0; d < (direction == Direction::bidirectional ? 2 : 1); ++d) {
    if (cell != CellKind::rnn) op.activations.emplace_back("sigmoid");
    op.activations.emplace_back("tanh");
    if (cell == CellKind::lstm) op.activations.emplace_back("tanh");
  }
  op.alphas.assign(op.activations.size(), 0);
  op.betas.assign(op.activations.size(), 0);
  return op;
}

// One element of a tensor of three axes.
double at(const Tensor& t, int64_t i, int64_t j, int64_t k) {
  return t.to_doubles()[static_cast<size_t>((i * t.dims()[1] + j) * t.dims()[2] + k)];
}

// gate `g` of unit `u` for step t of row b: x·W + h·R, without biases.
struct Problem {
  Tensor x, w, r, b;
  int64_t hidden;
  double gate(int64_t d, int64_t g, int64_t u, int64_t t, int64_t row, const std::vector<double>& h) const {
    double sum = 0;
    for (int64_t i = 0; i < x.dims()[2]; ++i) sum += at(x, t, row, i) * at(w, d, g * hidden + u, i);
    for (int64_t i = 0; i < hidden; ++i) sum += h[static_cast<size_t>(i)] * at(r, d, g * hidden + u, i);
    return sum;
  }
  double bias(int64_t d, int64_t g, int64_t u, bool of_recurrence) const {
    const int64_t gates = r.dims()[1];
    return b.to_doubles()[static_cast<size_t>((d * 2 + of_recurrence) * gates + g * hidden + u)];
  }
};

TEST(Recurrent, LstmIsTheEquationsOfTheStandard) {
  Random random = test_random();
  for (int round = 0; round < 12; ++round) {
    // Up to 9 steps of 1 to 3 rows: both the packed and the plain projection.
    const int64_t time = random.integer(1, 9), batch = random.integer(1, 3), in = random.integer(1, 9);
    const int64_t hidden = random.integer(1, 11);
    const Direction direction = static_cast<Direction>(round % 3);
    const int64_t directions = direction == Direction::bidirectional ? 2 : 1;
    const auto tensor = [&](Dims dims) { return random_tensor(random, DType::f32, std::move(dims)); };
    const Problem p{tensor({time, batch, in}), tensor({directions, 4 * hidden, in}),
                    tensor({directions, 4 * hidden, hidden}), tensor({directions, 8 * hidden}), hidden};
    const Tensor h0 = tensor({directions, batch, hidden}), c0 = tensor({directions, batch, hidden});
    const Tensor peepholes = tensor({directions, 3 * hidden});
    Tensor lengths(DType::i32, {batch});
    for (int64_t i = 0; i < batch; ++i)
      lengths.as_mutable<int32_t>()[i] = static_cast<int32_t>(random.integer(1, time));
    Recurrent op = layer(CellKind::lstm, direction);
    op.input_forget = round % 4 == 3;
    const auto out = run_op(op, {p.x, p.w, p.r, p.b, lengths, h0, c0, peepholes});
    ASSERT_EQ(out[0].dims(), (Dims{time, directions, batch, hidden}));
    const auto y = out[0].to_doubles();
    const auto peephole = [&](int64_t d, int64_t g, int64_t u) {
      return peepholes.to_doubles()[static_cast<size_t>((d * 3 + g) * hidden + u)];
    };
    for (int64_t d = 0; d < directions; ++d)
      for (int64_t row = 0; row < batch; ++row) {
        std::vector<double> h, c;
        for (int64_t u = 0; u < hidden; ++u) {
          h.push_back(at(h0, d, row, u));
          c.push_back(at(c0, d, row, u));
        }
        const int64_t length = lengths.as<int32_t>()[row];
        const bool reverse = direction == Direction::reverse || d == 1;
        for (int64_t s = 0; s < length; ++s) {
          const int64_t t = reverse ? length - 1 - s : s;
          std::vector<double> next_h(h.size());
          for (int64_t u = 0; u < hidden; ++u) {
            double& cell = c[static_cast<size_t>(u)];
            double g[4];
            for (int64_t k = 0; k < 4; ++k)
              g[k] = p.gate(d, k, u, t, row, h) + p.bias(d, k, u, false) + p.bias(d, k, u, true);
            const double i = sigmoid(g[0] + peephole(d, 0, u) * cell);
            const double f = op.input_forget ? 1 - i : sigmoid(g[2] + peephole(d, 2, u) * cell);
            cell = f * cell + i * std::tanh(g[3]);
            next_h[static_cast<size_t>(u)] = sigmoid(g[1] + peephole(d, 1, u) * cell) * std::tanh(cell);
          }
          h = next_h;
          for (int64_t u = 0; u < hidden; ++u)
            ASSERT_NEAR(y[static_cast<size_t>(((t * directions + d) * batch + row) * hidden + u)],
                        h[static_cast<size_t>(u)], 1e-6);
        }
        for (int64_t t = length; t < time; ++t)
          for (int64_t u = 0; u < hidden; ++u)
            ASSERT_EQ(y[static_cast<size_t>(((t * directions + d) * batch + row) * hidden + u)], 0);
        for (int64_t u = 0; u < hidden; ++u) {
          ASSERT_NEAR(at(out[1], d, row, u), h[static_cast<size_t>(u)], 1e-6);
          ASSERT_NEAR(at(out[2], d, row, u), c[static_cast<size_t>(u)], 1e-6);
        }
      }
  }
}

TEST(Recurrent, GruBothWaysOfResetting) {
  Random random = test_random();
  const auto tensor = [&](Dims dims) { return random_tensor(random, DType::f64, std::move(dims)); };
  const Problem p{tensor({3, 1, 2}), tensor({1, 15, 2}), tensor({1, 15, 5}), tensor({1, 30}), 5};
  const std::vector<double> zero(5, 0.0);
  for (const bool linear : {false, true}) {
    Recurrent op = layer(CellKind::gru);
    op.linear_before_reset = linear;
    const auto out = run_op(op, {p.x, p.w, p.r, p.b});
    std::vector<double> h(5, 0.0);
    for (int64_t t = 0; t < 3; ++t) {
      std::vector<double> z, r, reset_h, next;
      for (int64_t u = 0; u < 5; ++u) {
        z.push_back(sigmoid(p.gate(0, 0, u, t, 0, h) + p.bias(0, 0, u, false) + p.bias(0, 0, u, true)));
        r.push_back(sigmoid(p.gate(0, 1, u, t, 0, h) + p.bias(0, 1, u, false) + p.bias(0, 1, u, true)));
        reset_h.push_back(r.back() * h[static_cast<size_t>(u)]);
      }
      for (int64_t u = 0; u < 5; ++u) {
        const auto k = static_cast<size_t>(u);
        const double of_input = p.gate(0, 2, u, t, 0, zero) + p.bias(0, 2, u, false);
        const double of_h = p.gate(0, 2, u, t, 0, linear ? h : reset_h) - p.gate(0, 2, u, t, 0, zero);
        const double bias = p.bias(0, 2, u, true);
        const double g = std::tanh(of_input + (linear ? r[k] * (of_h + bias) : of_h + bias));
        next.push_back((1 - z[k]) * g + z[k] * h[k]);
      }
      h = next;
    }
    for (int64_t u = 0; u < 5; ++u) EXPECT_NEAR(at(out[1], 0, 0, u), h[static_cast<size_t>(u)], 1e-12);
  }
}

TEST(Recurrent, ManyRowsAndStepsAreTheSameAsOneByOne) {
  Random random = test_random();
  const auto tensor = [&](Dims dims) { return random_tensor(random, DType::f32, std::move(dims)); };
  const int64_t time = 700, batch = 5, in = 3, hidden = 160;  // more than one stretch of projections
  const Tensor x = tensor({time, batch, in}), w = tensor({2, 4 * hidden, in});
  Tensor r = tensor({2, 4 * hidden, hidden});
  for (int64_t i = 0; i < r.size(); ++i) r.as_mutable<float>()[i] *= 0.05F;
  const Recurrent op = layer(CellKind::lstm, Direction::bidirectional);
  const auto all = run_op(op, {x, w, r});
  for (const int64_t row : {int64_t{0}, int64_t{4}}) {
    Tensor one(DType::f32, {time, 1, in});
    for (int64_t t = 0; t < time; ++t)
      for (int64_t i = 0; i < in; ++i) one.as_mutable<float>()[t * in + i] = x.as<float>()[(t * batch + row) * in + i];
    const auto single = run_op(op, {one, w, r});
    for (int64_t t = 0; t < time; ++t)
      for (int64_t d = 0; d < 2; ++d)
        for (int64_t u = 0; u < hidden; ++u)
          ASSERT_NEAR(all[0].as<float>()[((t * 2 + d) * batch + row) * hidden + u],
                      single[0].as<float>()[(t * 2 + d) * hidden + u], 1e-6);
  }
}

TEST(Recurrent, EmptySequencesBatchesAndLengths) {
  const Recurrent op = layer(CellKind::gru);
  const Tensor w = f32({1, 3, 1}, {1, 1, 1}), r = f32({1, 3, 1}, {1, 1, 1}), h0 = f32({1, 1, 1}, {0.5});
  auto out = run_op(op, {Tensor(DType::f32, {0, 1, 1}), w, r, {}, {}, h0});
  EXPECT_EQ(out[0].dims(), (Dims{0, 1, 1, 1}));
  EXPECT_EQ(out[1], h0);
  out = run_op(op, {Tensor(DType::f32, {2, 0, 1}), w, r});
  EXPECT_EQ(out[1].dims(), (Dims{1, 0, 1}));
  out = run_op(op, {f32({2, 1, 1}, {1, 1}), w, r, {}, Tensor::of<int32_t>(DType::i32, {1}, {0}), h0});
  EXPECT_EQ(out[1], f32({1, 1, 1}, {0}));
  EXPECT_EQ(out[0], f32({2, 1, 1, 1}, {0, 0}));
}

TEST(Recurrent, ActivationsAndClip) {
  const Tensor x = f32({1, 4, 1}, {-2, -0.5, 0.25, 3}), one = f32({1, 1, 1}, {1}), zero = f32({1, 1, 1}, {0});
  const auto with = [&](const std::string& name, double alpha, double beta, double clip = 0) {
    Recurrent op = layer(CellKind::rnn);
    op.activations = {name};
    op.alphas = {alpha};
    op.betas = {beta};
    op.clip = clip;
    return run_op(op, {x, one, zero})[0].to_doubles();
  };
  const auto expect = [&](const std::vector<double>& actual, auto f) {
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(actual[i], f(x.to_doubles()[i]), 1e-6);
  };
  expect(with("relu", 0, 0), [](double v) { return std::max(v, 0.0); });
  expect(with("tanh", 0, 0), [](double v) { return std::tanh(v); });
  expect(with("tanh", 0, 0, 0.75), [](double v) { return std::tanh(std::clamp(v, -0.75, 0.75)); });
  expect(with("sigmoid", 0, 0), [](double v) { return sigmoid(v); });
  expect(with("affine", 2, 1), [](double v) { return 2 * v + 1; });
  expect(with("leakyrelu", 0.1, 0), [](double v) { return v < 0 ? 0.1 * v : v; });
  expect(with("thresholdedrelu", 0.5, 0), [](double v) { return v >= 0.5 ? v : 0; });
  expect(with("scaledtanh", 2, 3), [](double v) { return 2 * std::tanh(3 * v); });
  expect(with("hardsigmoid", 0.2, 0.5), [](double v) { return std::clamp(0.2 * v + 0.5, 0.0, 1.0); });
  expect(with("elu", 2, 0), [](double v) { return v < 0 ? 2 * std::expm1(v) : v; });
  expect(with("softsign", 0, 0), [](double v) { return v / (1 + std::abs(v)); });
  expect(with("softplus", 0, 0), [](double v) { return std::log1p(std::exp(v)); });
}

TEST(Recurrent, NarrowFloatsRoundOnce) {
  Random random = test_random();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = random_tensor(random, dtype, {4, 2, 3}), w = random_tensor(random, dtype, {1, 20, 3});
    const Tensor r = random_tensor(random, dtype, {1, 20, 5});
    const auto wide = [](const Tensor& t) {
      Tensor out(DType::f64, t.dims());
      load_elements(t.dtype(), t.data(), 0, 1, t.size(), out.as_mutable<double>());
      return out;
    };
    const auto y = run_op(layer(CellKind::lstm), {x, w, r})[0];
    const auto exact = run_op(layer(CellKind::lstm), {wide(x), wide(w), wide(r)})[0];
    for (int64_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y.to_doubles()[static_cast<size_t>(i)], rounded(dtype, exact.as<double>()[i]),
                  tolerance(dtype, exact.as<double>()[i]));
  }
}

TEST(Recurrent, Errors) {
  const Recurrent op = layer(CellKind::rnn);
  const Tensor x(DType::f32, {2, 3, 4}), w(DType::f32, {1, 5, 4}), r(DType::f32, {1, 5, 5});
  const auto error = [&](const std::vector<Tensor>& inputs) { return error_of([&] { run_op(op, inputs); }); };
  EXPECT_NE(error({x, Tensor(DType::f32, {1, 5, 3}), r}).find("the weights: axis 2"), std::string::npos);
  EXPECT_NE(error({x, w, Tensor(DType::f32, {1, 4, 5})}).find("the recurrence weights: axis 1"), std::string::npos);
  EXPECT_NE(error({x, w, r, Tensor(DType::f32, {1, 5})}).find("the biases: axis 1"), std::string::npos);
  EXPECT_NE(error({x, w, Tensor(DType::f64, {1, 5, 5})}).find("must be f32"), std::string::npos);
  EXPECT_NE(error({Tensor(DType::f32, {2, 3}), w, r}).find("3 axes"), std::string::npos);
  EXPECT_NE(error({x, w, r, {}, Tensor::of<int32_t>(DType::i32, {3}, {1, 3, 2})}).find("sequence_lens[1] is 3"),
            std::string::npos);
  EXPECT_NE(error({x, w, r, {}, {}, {}, Tensor(DType::f32, {1, 3, 5})}).find("only an LSTM"), std::string::npos);
}

TEST(DotRows, AllRemainders) {
  Random random = test_random();
  for (int64_t columns = 0; columns < 20; ++columns)
    for (int64_t rows = 1; rows < 10; ++rows) {
      const Tensor a = random_tensor(random, DType::f32, {rows, columns});
      const Tensor x = random_tensor(random, DType::f64, {columns});
      std::vector<double> out(static_cast<size_t>(rows), 1.0);
      add_row_products(a.as<float>(), rows, columns, x.as<double>(), out.data());
      for (int64_t j = 0; j < rows; ++j) {
        double sum = 1;
        for (int64_t i = 0; i < columns; ++i)
          sum += static_cast<double>(a.as<float>()[j * columns + i]) * x.as<double>()[i];
        ASSERT_NEAR(out[static_cast<size_t>(j)], sum, 1e-12) << rows << " x " << columns;
      }
    }
}

}  // namespace
}  // namespace camshaft::ops::recurrent_test

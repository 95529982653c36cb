#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ir/ops/paged.h"
#include "reference/element_io.h"
#include "reference/single_op.h"

namespace camshaft::ops::paged_reference_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

Tensor i32(Dims dims, const std::vector<int32_t>& values) {
  return Tensor::of<int32_t>(DType::i32, std::move(dims), values);
}

TEST(PagedStoreReference, LaterRowsStayAndNegativeSlotsAreLeftOut) {
  const Tensor cache = f32({2, 2, 1}, {1, 2, 3, 4}), rows = f32({4, 1}, {5, 6, 7, 8});
  EXPECT_EQ(run_op(PagedStore{}, {cache, rows, i64({4}, {2, -1, 0, 2})})[0], f32({2, 2, 1}, {7, 2, 8, 4}));
  EXPECT_THROW(run_op(PagedStore{}, {cache, rows, i64({4}, {0, 1, 2, 4})}), Error);
}

// One head of one element; all keys are 0, so that what is seen counts the same.
TEST(PagedAttentionReference, SeesItsSequenceUpToItself) {
  const Tensor query = f32({4, 1}, {1, 1, 1, 1}), keys = f32({3, 2, 1, 1}, {0, 0, 0, 0, 0, 0});
  // Position 0 of the first sequence, which begins in block 2, is 8, then 4, then 16; that of the second is 1.
  const Tensor values = f32({3, 2, 1, 1}, {16, infinity, 1, infinity, 8, 4});
  const Tensor starts = i32({3}, {0, 2, 3}), past = i32({2}, {1, 0}), table = i32({2, 2}, {2, 0, 1, -1});
  PagedAttention op;
  EXPECT_EQ(run_op(op, {query, keys, values, starts, past, table})[0], f32({4, 1}, {6, 28.0F / 3, 1, 0}));
  op.window = 2;
  EXPECT_EQ(run_op(op, {query, keys, values, starts, past, table})[0], f32({4, 1}, {6, 10, 1, 0}));
  op.causal = false;
  op.window = 0;
  EXPECT_EQ(run_op(op, {query, keys, values, starts, past, table})[0], f32({4, 1}, {28.0F / 3, 28.0F / 3, 1, 0}));
}

TEST(PagedAttentionReference, CapsAndSinks) {
  const Tensor query = f32({1, 2}, {1, 2}), keys = f32({1, 2, 1, 1}, {0, 3}), values = f32({1, 2, 1, 1}, {1, 2});
  const Tensor starts = i32({2}, {0, 1}), past = i32({1}, {1}), table = i32({1, 1}, {0});
  PagedAttention op;
  op.heads = 2;
  op.scale = 0.5;
  op.softcap = 2;
  const Tensor sinks = f32({2}, {1, -infinity});
  const Tensor y = run_op(op, {query, keys, values, starts, past, table, sinks})[0];
  for (const int head : {0, 1}) {
    const double weight = std::exp(2 * std::tanh((head + 1) * 0.75)), sink = head == 0 ? std::exp(1.0) : 0;
    EXPECT_NEAR(y.as<float>()[head], (1 + 2 * weight) / (1 + weight + sink), 1e-6);
  }
}

TEST(PagedQuantizeReference, HeadsHaveScales) {
  Tensor cache(DType::i8, {1, 2, 2, 2});
  const std::vector<Tensor> results =
      run_op(PagedQuantize{}, {cache, f32({1, 2, 2}, {9, 9, 9, 9}), f32({1, 2, 2}, {-2, 0.5F, 0, 0}), i64({1}, {1})});
  EXPECT_EQ(results[0].to_ints(), (std::vector<int64_t>{0, 0, 0, 0, -127, 32, 0, 0}));
  EXPECT_EQ(results[1], f32({1, 2, 2}, {9, 9, 2 / 127.0F, PagedQuantize::least / 127}));
}

TEST(PagedAttentionReference, RowsOf8BitsAreTimesTheirScales) {
  const Tensor query = f32({1, 2}, {1, 1}), scales = f32({1, 2, 1}, {0.5F, 0.25F});
  Tensor keys(DType::i8, {1, 2, 1, 2}), values(DType::f8e4m3, {1, 2, 1, 1});
  const int8_t codes[] = {2, -1, 4, 127};
  std::copy_n(codes, 4, keys.as_mutable<int8_t>());
  const double numbers[] = {-1.5, 448};
  store_elements(DType::f8e4m3, values.mutable_data(), 0, 1, 2, numbers);
  const Tensor starts = i32({2}, {0, 1}), past = i32({1}, {1}), table = i32({1, 1}, {0});
  PagedAttention op;
  op.scale = 0.01;
  const Tensor y = run_op(op, {query, keys, values, starts, past, table, {}, scales, scales})[0];
  const double a = std::exp(0.01 * 0.5), b = std::exp(0.01 * 0.25 * 131);
  EXPECT_NEAR(y.as<float>()[0], (-0.75 * a + 112 * b) / (a + b), 1e-4);
  EXPECT_THROW(run_op(op, {query, keys, values, starts, past, table, {}, f32({1, 2, 2}, {1, 1, 1, 1})}), Error);
}

// Keys are 0, so that scores are the bias alone.
TEST(PagedAttentionReference, ScoresHaveABiasByDistance) {
  const Tensor query = f32({3, 2}, {1, 1, 1, 1, 1, 1}), keys = f32({2, 2, 1, 1}, {0, 0, 0, 0});
  const Tensor values = f32({2, 2, 1, 1}, {1, 2, 4, 8});
  const Tensor starts = i32({2}, {0, 3}), past = i32({1}, {1}), table = i32({1, 2}, {0, 1});
  const Tensor bias = f32({2, 3}, {0.5F, 1, 1.5F, -infinity, 0, 2});  // reaches one key
  PagedAttention op;
  op.heads = 2;
  const auto run = [&] { return run_op(op, {query, keys, values, starts, past, table, {}, {}, {}, bias})[0]; };
  const double b = std::exp(-0.5);
  const Tensor seen = run();
  EXPECT_NEAR(seen.as<float>()[0], (1 * b + 2) / (b + 1), 1e-6);
  EXPECT_NEAR(seen.as<float>()[4], (1 * b + 2 * b + 4 * b + 8) / (3 * b + 1), 1e-6);
  for (const int token : {0, 1, 2}) EXPECT_EQ(seen.as<float>()[2 * token + 1], static_cast<float>(2 << token));
  op.causal = false;
  const Tensor all = run();
  const double f = std::exp(0.5), g = std::exp(2.0);
  EXPECT_NEAR(all.as<float>()[0], (1 * b + 2 + 4 * f + 8 * f) / (b + 1 + 2 * f), 1e-6);
  EXPECT_NEAR(all.as<float>()[1], (2 + 4 * g + 8 * g) / (1 + 2 * g), 1e-6);
  op.softcap = 0.75;
  const double c = std::exp(0.75 * std::tanh(0.5 / 0.75) - 0.75 * std::tanh(1 / 0.75)),
               d = std::exp(0.75 * std::tanh(1.5 / 0.75) - 0.75 * std::tanh(1 / 0.75));
  EXPECT_NEAR(run().as<float>()[0], (1 * c + 2 + 4 * d + 8 * d) / (c + 1 + 2 * d), 1e-6);
  EXPECT_THROW(run_op(op, {query, keys, values, starts, past, table, {}, {}, {}, f32({2, 2}, {0, 0, 0, 0})}), Error);
  EXPECT_THROW(run_op(op, {query, keys, values, starts, past, table, {}, {}, {}, f32({1, 3}, {0, 0, 0})}), Error);
}

// More tokens than keys, which all of them see.
TEST(PagedAttentionReference, ATokenWithoutCausesMayHaveFewerKeysThanItsSequenceHasTokens) {
  const Tensor query = f32({3, 1}, {1, 1, 1}), keys = f32({1, 2, 1, 1}, {0, 0}), values = f32({1, 2, 1, 1}, {2, 4});
  PagedAttention op;
  op.causal = false;
  const Tensor starts = i32({2}, {0, 3}), table = i32({1, 1}, {0});
  EXPECT_EQ(run_op(op, {query, keys, values, starts, i32({1}, {-1}), table})[0], f32({3, 1}, {3, 3, 3}));
  EXPECT_THROW(run_op(op, {query, keys, values, starts, i32({1}, {-4}), table}), Error);
}

TEST(PagedAttentionReference, RefusesTablesThatLie) {
  const Tensor query = f32({2, 1}, {1, 1}), cache = f32({2, 2, 1, 1}, {0, 0, 0, 0});
  const auto refused = [&](const Tensor& starts, const Tensor& past, const Tensor& table) {
    try {
      run_op(PagedAttention{}, {query, cache, cache, starts, past, table});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  EXPECT_NE(refused(i32({2}, {0, 2}), i32({1}, {1}), i32({1, 2}, {0, 2})).find("names block 2 of 2"),
            std::string::npos);
  EXPECT_NE(refused(i32({2}, {0, 2}), i32({1}, {3}), i32({1, 2}, {0, 1})).find("too short"), std::string::npos);
  EXPECT_NE(refused(i32({2}, {0, 3}), i32({1}, {0}), i32({1, 2}, {0, 1})).find("tokens 0 to 3 of 2"),
            std::string::npos);
  EXPECT_NE(refused(i32({2}, {0, 2}), i32({1}, {-1}), i32({1, 2}, {0, 1})).find("-1 tokens"), std::string::npos);
  EXPECT_NE(refused(i32({2}, {1, 2}), i32({1}, {0}), i32({1, 2}, {0, 1})).find("starts at token 1"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::paged_reference_test

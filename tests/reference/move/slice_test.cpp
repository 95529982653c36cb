#include <algorithm>

#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/naive_slice.h"
#include "ir/ops/slice_bounds.h"
#include "reference/single_op.h"
#include "test_random.h"

namespace camshaft::ops::slice_test {
namespace {

TEST(DynamicSlice, EvaluatesAsDefined) {
  Random random = test_random();
  const Tensor x = i64({3, 5, 4}, [] {
    std::vector<int64_t> v(60);
    for (size_t i = 0; i < 60; ++i) v[i] = static_cast<int64_t>(i);
    return v;
  }());
  for (int round = 0; round < 200; ++round) {
    const int64_t axis = random.integer(-3, 2),
                  step = random.integer(0, 1) ? random.integer(1, 4) : random.integer(-4, -1);
    const int64_t start = random.integer(-7, 7), end = random.integer(-7, 7);
    const std::vector<Tensor> inputs{x, i64({2}, {start, 1}), i64({2}, {end, INT64_MAX}),
                                     i64({2}, {axis, (axis + 4) % 3}), i64({2}, {step, 1})};
    const Dims dims = x.dims();
    const auto a = static_cast<size_t>((axis + 3) % 3), b = static_cast<size_t>((axis + 4) % 3);
    const std::vector<int64_t> taken = naive(start, end, step, dims[a]);
    for (const bool constants : {false, true}) {
      const Tensor out = run_op(DynamicSlice{}, inputs, {}, constants)[0];
      Dims expected = dims;
      expected[a] = static_cast<int64_t>(taken.size());
      expected[b] -= 1;
      ASSERT_EQ(out.dims(), expected) << "round " << round;
      for (int64_t i = 0; i < out.size(); ++i) {
        Dims at{i / (expected[1] * expected[2]), i / expected[2] % expected[1], i % expected[2]};
        at[a] = taken[static_cast<size_t>(at[a])];
        at[b] += 1;
        ASSERT_EQ(out.as<int64_t>()[i], at[0] * 20 + at[1] * 4 + at[2]) << "round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace camshaft::ops::slice_test

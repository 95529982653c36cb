#include <limits>

#include "backends/cpu/each_target.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/window_ops.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::determinant_test {
namespace {

// With the bits of the reference: sizes of no whole vectors, matrices that are singular, and numbers that are none.
TEST(Determinant, HasTheReferencesBits) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      const DType dtype = round % 2 ? DType::f32 : DType::f64;
      const int64_t n = random.integer(round % 10 ? 1 : 0, round % 7 ? 12 : 40);
      const Dims dims{random.integer(round % 15 ? 1 : 0, 6), random.integer(1, 5), n, n};
      Tensor x = random_tensor(random, dtype, dims);
      for (int64_t i = 0; i < x.size(); ++i) {
        const int64_t row = n > 0 ? i / n % n : 0;
        double value = static_cast<double>(random.integer(-2, 2));
        if (round % 3 == 0) ops::store_elements(dtype, x.mutable_data(), i, 1, 1, &value);  // many are singular
        if (round % 3 == 1 && row > 0 && i / (n * n) % 2 == 0) {                            // rows that are equal
          ops::load_elements(dtype, x.data(), i - n, 1, 1, &value);
          ops::store_elements(dtype, x.mutable_data(), i, 1, 1, &value);
        }
        if (round % 11 == 5 && random.integer(0, 50) == 0) {
          value =
              random.integer(0, 1) ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
          ops::store_elements(dtype, x.mutable_data(), i, 1, 1, &value);
        }
      }
      NodeTest(ops::Determinant{}, {x}, {}, "determinant").check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFailure()) return;
    }
  });
}

// Enough of them for several threads.
TEST(Determinant, SharedByThreads) {
  Random random = test_random();
  const Tensor x = random_tensor(random, DType::f32, {101, 24, 24});
  for (const int threads : {1, 2, 5}) NodeTest(ops::Determinant{}, {x}, {}, "determinant").check(threads);
}

}  // namespace
}  // namespace camshaft::cpu::determinant_test

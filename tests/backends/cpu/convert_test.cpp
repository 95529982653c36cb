// f32 to bytes: truncated, saturated, and 0 for what is no number, as the reference has it.
#include <limits>

#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/pointwise.h"

namespace camshaft::cpu {
namespace {

TEST(Convert, FloatsToBytes) {
  RandomData random;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float special[] = {std::numeric_limits<float>::quiet_NaN(),
                           infinity,
                           -infinity,
                           -0.0F,
                           1e-40F,
                           -0.99F,
                           127.99F,
                           -128.99F,
                           255.99F,
                           256,
                           1e30F,
                           -1e30F,
                           2147483648.0F};
  for_each_target([&] {
    for (const DType to : {DType::u8, DType::i8})
      for (const int64_t size : {1, 5, 16, 33, 100, 3000}) {
        Tensor x(DType::f32, {size});
        for (int64_t i = 0; i < size; ++i)
          x.as_mutable<float>()[i] = random.coin() ? 300 * random.real() : special[random.integer(0, 12)];
        const NodeTest test(ops::Cast{to}, {x}, {}, "pointwise");
        test.check(1);
        test.check(2);
      }
  });
}

}  // namespace
}  // namespace camshaft::cpu

#include "optimize/precision/expand_paged_quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/ops/paged.h"
#include "optimize/pass_test.h"
#include "optimize/precision/expand_quantization.h"
#include "reference/element_io.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"
#include "test_random.h"

namespace camshaft::expand_paged_quantize_test {
namespace {

// What an engine is judged by computes what the operator does, of numbers that are none, too.
TEST(ExpandPagedQuantize, ComputesTheSame) {
  Random random = test_random();
  for (const DType cache : {DType::i8, DType::f8e4m3})
    for (const DType rows : {DType::f32, DType::f16}) {
      Graph whole;
      const auto input = [&](const char* name, DType dtype, Dims dims) {
        return whole.add_input(name, {dtype, Shape(dims.begin(), dims.end())});
      };
      const std::vector<ValueId> operands{input("c", cache, {3, 2, 2, 5}), input("s", DType::f32, {3, 2, 2}),
                                          input("r", rows, {4, 2, 5}), input("slots", DType::i64, {4})};
      const std::vector<ValueId> results = whole.add_node(ops::PagedQuantize{}, operands, {"codes", "scales"}, {}, {});
      whole.add_output("codes", results[0]);
      whole.add_output("scales", results[1]);
      Graph parts = whole;
      ThreadPool pool(2);
      expand_paged_quantize(parts, PassContext{.pool = pool});
      expand_quantization(parts, PassContext{.pool = pool});
      for (const Node& node : parts.nodes) EXPECT_EQ(node.op.as<ops::PagedQuantize>(), nullptr);
      Tensor given = random_tensor(random, rows, {4, 2, 5});
      const double special[] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()};
      for (const int64_t i : {0, 1}) ops::store_elements(rows, given.mutable_data(), 10 * i + 3, 1, 1, &special[i]);
      std::fill_n(given.mutable_data() + 20 * bit_width(rows) / 8, 5 * bit_width(rows) / 8, std::byte());
      const std::vector<Tensor> inputs{random_tensor(random, cache, {3, 2, 2, 5}),
                                       random_tensor(random, DType::f32, {3, 2, 2}), given,
                                       Tensor::of<int64_t>(DType::i64, {4}, {5, 0, -1, 2})};
      const std::vector<Tensor> expected = evaluate(whole, inputs, pool), actual = evaluate(parts, inputs, pool);
      for (const size_t o : {size_t{0}, size_t{1}}) {
        const std::vector<double> got = actual[o].to_doubles(), wanted = expected[o].to_doubles();
        for (size_t i = 0; i < wanted.size(); ++i)
          EXPECT_TRUE(got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i])))
              << got[i] << " for " << wanted[i] << " at " << i << " of " << o;
      }
    }
}

}  // namespace
}  // namespace camshaft::expand_paged_quantize_test

// Matrix products of regions: what their epilogues read.
#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"

namespace camshaft::cpu::matmul_test {
namespace {

Tensor floats(RandomData& data, const Dims& dims) {
  Tensor t(DType::f32, dims);
  const std::vector<float> values = data.floats(t.size());
  std::copy(values.begin(), values.end(), t.as_mutable<float>());
  return t;
}

// The kernel has its weights packed, and yet somebody reads them as they were.
TEST(MatMul, WeightsThatTheEpilogueReadsToo) {
  RandomData data;
  for_each_target([&] {
    for (const ScalarFunction function : {ScalarFunction::add, ScalarFunction::max})
      for (const int64_t rows : {3, 17}) {
        const Tensor x = floats(data, {rows, 3, 3}), w = floats(data, {3, 17});
        const auto type = [](const Tensor& t) {
          return TensorType{t.dtype(), Shape(t.dims().begin(), t.dims().end())};
        };
        Graph body;
        const ValueId a = body.add_input("x", type(x)), b = body.add_input("w", type(w));
        const ValueId c = body.add(ops::MatMul{}, {a, b}, "c");
        body.add_output("y", body.add(ops::Pointwise{function}, {b, c}, "p"));
        NodeTest test(ops::Region{ops::RegionKind::contract}, {x, w}, {1}, "gemm", 1e-5);
        test.bodies = {body};
        test.check(2);
      }
  });
}

}  // namespace
}  // namespace camshaft::cpu::matmul_test

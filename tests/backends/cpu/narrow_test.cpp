// Kernels that read and write f16 and bf16 by themselves, against the reference: what the bits of a half tell, and
// norms of narrow rows.
#include <gtest/gtest.h>

#include "backends/cpu/each_target.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/operators.h"
#include "ir/ops/region.h"
#include "ir/text.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::narrow_test {
namespace {

NodeTest region_test(ops::RegionKind kind, const std::string& body, std::vector<Tensor> operands,
                     const std::string& tactic, double tolerance = 0) {
  NodeTest test(ops::Region{kind}, std::move(operands), {}, tactic, tolerance);
  test.bodies = {parse_graph("graph \"g\" " + body, operators())};
  return test;
}

Tensor halves(Random& random, const Dims& dims) {
  Tensor x(DType::f16, dims);
  auto* bits = x.as_mutable<uint16_t>();
  // Every pattern, and those at the borders more often.
  constexpr uint16_t borders[] = {0, 0x8000, 0x7c00, 0xfc00, 0x7c01, 0xfe00, 0x7bff, 0x0001, 0x8001};
  for (int64_t i = 0; i < x.size(); ++i)
    bits[i] = random.integer(0, 3) ? static_cast<uint16_t>(random.integer(0, 0xffff)) : borders[random.integer(0, 8)];
  return x;
}

TEST(FunctionsOfHalves, AgreeWithTheReference) {
  Random random = test_random();
  const std::string cast = "%w = cast {to=f32} (%x)\n", narrow = "%y = cast {to=f16} (%r)\nreturn %y }";
  const std::string bodies[] = {
      cast + "%y = pointwise {function=is_nan} (%w)\nreturn %y }",
      cast + "%y = pointwise {function=is_inf_pos} (%w)\nreturn %y }",
      cast + "%y = pointwise {function=is_inf_neg} (%w)\nreturn %y }",
      cast + "%a = pointwise {function=abs} (%w)\n%y = pointwise {function=is_inf_pos} (%a)\nreturn %y }",
      cast + "%a = pointwise {function=abs} (%w)\n%y = pointwise {function=is_inf_neg} (%a)\nreturn %y }",
      cast + "%r = pointwise {function=abs} (%w)\n" + narrow,
      cast + "%r = pointwise {function=neg} (%w)\n" + narrow,
      cast + "%r = pointwise {function=sign} (%w)\n" + narrow,
      // Somebody else reads the numbers, or the result, as f32.
      cast + "%n = pointwise {function=is_nan} (%w)\n%r = pointwise {function=select} (%n, %w, %w)\n" + narrow,
      cast + "%n = pointwise {function=neg} (%w)\n%r = pointwise {function=mul} (%n, %n)\n" + narrow,
  };
  for_each_target([&] {
    for (const std::string& body : bodies)
      for (const int64_t size : {1, 7, 16, 63, 64, 65, 1000, 5000}) {
        const std::string begin = "(%x: f16[" + std::to_string(size) + "]) {\n";
        const NodeTest test =
            region_test(ops::RegionKind::pointwise, begin + body, {halves(random, {size})}, "pointwise");
        test.check(1);
        if (testing::Test::HasFailure()) return;
      }
  });
}

TEST(NarrowRows, NormsAgreeWithTheReference) {
  Random random = test_random();
  for_each_target([&] {
    for (const std::string type : {"f16", "bf16"})
      for (const std::string attributes :
           {"axis=1", "axis=1, root_mean_square=true", "axis=1, root_mean_square=true, clamped=true"})
        for (const auto& [rows, length] :
             {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {9, 16}, {70, 100}, {5, 1000}, {1, 4097}, {2, 16384}, {0, 8}})
          for (const int ends : {0, 1, 2}) {  // both, the first or the last alone
            const bool is_root = attributes != "axis=1";
            const std::string row = std::to_string(length), dims = "[" + std::to_string(rows) + ", " + row + "]";
            const std::string from = ends == 2 ? "f32" : type;
            std::string body = "(%s: f32[" + row + "], %x: " + from + dims;
            body += is_root ? ") {\n" : ", %b: f32[" + row + "]) {\n";
            if (ends < 2) body += "%w = cast {to=f32} (%x)\n";
            body += "%n = layer_norm {" + attributes + "} (" + (ends < 2 ? "%w" : "%x") + ", %s";
            body += is_root ? ")\n" : ", %b)\n";
            if (ends != 1) body += "%y = cast {to=" + type + "} (%n)\n";
            body += ends == 1 ? "return %n }" : "return %y }";
            const DType x_type = ends == 2 ? DType::f32 : type == "f16" ? DType::f16 : DType::bf16;
            std::vector<Tensor> operands = {random_tensor(random, DType::f32, {length}),
                                            random_tensor(random, x_type, {rows, length})};
            if (!is_root) operands.push_back(random_tensor(random, DType::f32, {length}));
            const double step = ends == 1 ? 1e-5 : type == "f16" ? 1e-3 : 8e-3;
            const NodeTest test = region_test(ops::RegionKind::chain, body, operands, "layer_norm", step);
            for (const int threads : {1, 3}) test.check(threads);
            if (testing::Test::HasFailure()) return;
          }
  });
}

}  // namespace
}  // namespace camshaft::cpu::narrow_test

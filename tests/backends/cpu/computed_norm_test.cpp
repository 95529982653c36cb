// Norms of what a pointwise program computes row by row, against both one after the other.
#include "backends/cpu/each_target.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/operators.h"
#include "ir/ops/region.h"
#include "ir/text.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::computed_norm_test {
namespace {

// (x, z, r, s[, b]): the norm of x · z + r, rows of which are shared, over the axes from `axis` on.
NodeTest random_norm(Random& random, int round) {
  const int64_t rank = random.integer(1, 3), axis = random.integer(0, rank - 1);
  const bool root = random.integer(0, 1) == 1, has_bias = !root && random.integer(0, 1) == 1;
  Dims dims, row;
  for (int64_t d = 0; d < rank; ++d) {
    const bool is_long = round % 3 == 0 && d + 1 == rank;  // rows beyond a block of the kernel's
    dims.push_back(round % 17 == 5 ? random.integer(0, 2) : random.integer(1, is_long ? 6000 : 12));
    if (d >= axis) row.push_back(dims.back());
  }
  const auto operand = [](const std::string& name, const Dims& d) { return name + ": f32" + to_string(d); };
  const Dims shared{dims.back()};
  const std::string computed = "(" + operand("%x", dims) + ", " + operand("%z", dims) + ", " + operand("%r", shared);
  std::string body = "graph \"g\" " + computed + ", " + operand("%s", row);
  if (has_bias) body += ", " + operand("%b", row);
  body += ") {\n%p = region {kind=pointwise} (%x, %z, %r) graph " + computed + R"() {
              %m = pointwise {function=mul} (%x, %z)
              %p = pointwise {function=add} (%m, %r)
              return %p
            })";
  body += "\n%y = layer_norm {axis=" + std::to_string(axis) + (root ? ", root_mean_square=true" : "") + "} (%p, %s";
  body += has_bias ? ", %b)\nreturn %y }" : ")\nreturn %y }";
  std::vector<Tensor> operands;
  for (const Dims& d : {dims, dims, shared, row}) operands.push_back(random_tensor(random, DType::f32, d));
  if (has_bias) operands.push_back(random_tensor(random, DType::f32, row));
  NodeTest test(ops::Region{ops::RegionKind::chain}, operands, {}, "computed_norm", 1e-4);
  test.bodies = {parse_graph(body, operators())};
  return test;
}

TEST(ComputedNorm, RandomShapes) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 100; ++round) {
      random_norm(random, round).check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFailure()) return;
    }
  });
}

TEST(ComputedNorm, OverWhatItIsComputedFrom) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 20; ++round) {
      NodeTest test = random_norm(random, round);
      test.over = static_cast<int>(random.integer(0, 1));
      test.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFailure()) return;
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::computed_norm_test

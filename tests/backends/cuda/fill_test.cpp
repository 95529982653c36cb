// Images whose channels are filled up with zeros, against the reference.
#include <gtest/gtest.h>

#include "backends/cuda/run_node.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "reference/random_tensor.h"

namespace camshaft::cuda::fill_test {
namespace {

struct Case {
  Dims x;  // batch, channels, height, width; or channels last
  bool turns = true;
  int64_t filled = 4;
  DType from = DType::f32, to = DType::f16;
};

NodeTest make(const Case& c, Random& random) {
  NodeTest test(ops::Region{ops::RegionKind::pointwise}, {random_tensor(random, c.from, c.x)}, "cuda_fill", 1e-3);
  Graph body;
  ValueId last = body.add_input("x", {c.from, Shape(c.x.begin(), c.x.end())});
  if (c.turns) last = body.add(ops::Transpose{{0, 2, 3, 1}}, {last}, "turned");
  if (c.from != DType::f32) last = body.add(ops::Cast{.to = DType::f32}, {last}, "wide");
  const ValueId half = body.add_constant("half", tensor_of(DType::f32, {}, {0.5}));
  last = body.add(ops::Pointwise{ScalarFunction::add}, {last, half}, "sum");
  last = body.add(ops::Cast{.to = c.to}, {last}, "narrow");
  const Shape image = body.shape(last);
  Shape pads(8, Dim(0));
  pads[7] = c.filled - *image[3].as_constant();
  last = body.add(ops::Pad{.mode = ops::PadMode::constant, .pads = pads}, {last}, "filled");
  if (c.filled == 4)
    last = body.add(ops::Reshape{.shape = {image[0], image[1], *image[2].as_constant() / 2, 8}}, {last}, "pairs");
  body.add_output("y", last);
  test.bodies = {body};
  return test;
}

TEST(CudaFill, LayoutsTypesAndSizes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const Case& c : std::vector<Case>{{{2, 3, 5, 8}},
                                         {{1, 3, 33, 70}},
                                         {{2, 1, 4, 6}},
                                         {{1, 4, 3, 2}},
                                         {{2, 3, 5, 7}, true, 8},
                                         {{3, 5, 4, 9}, true, 8, DType::f16},
                                         {{2, 5, 6, 3}, false},
                                         {{2, 5, 7, 2}, false, 8, DType::f32, DType::bf16},
                                         {{0, 3, 4, 4}},
                                         {{1, 3, 6, 4}, true, 4, DType::u8}})
    make(c, random).check();
}

}  // namespace
}  // namespace camshaft::cuda::fill_test

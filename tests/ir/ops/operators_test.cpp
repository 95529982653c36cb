#include "ir/ops/operators.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/ops/reduce.h"

namespace camshaft::operators_test {
namespace {

TEST(Operators, TheTableKnowsAll) {
  const std::vector<std::string> names = operators().names();
  for (const char* name : {"pointwise",
                           "cast",
                           "matmul",
                           "conv",
                           "conv_transpose",
                           "reduce",
                           "arg_reduce",
                           "softmax",
                           "layer_norm",
                           "group_norm",
                           "pool",
                           "resize",
                           "reshape",
                           "transpose",
                           "expand",
                           "concat",
                           "slice",
                           "dynamic_slice",
                           "pad",
                           "gather",
                           "gather_elements",
                           "scatter_nd",
                           "dims",
                           "shape_of",
                           "range",
                           "region",
                           "dynamic_reduce",
                           "dynamic_squeeze",
                           "dynamic_unsqueeze",
                           "dynamic_tile",
                           "dynamic_split",
                           "dynamic_pad",
                           "dynamic_resize"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  const Op op = ops::Softmax{2, true};
  EXPECT_EQ(operators().make(op.name(), op.fields()), op);
  EXPECT_THROW(operators().make("no such", {}), Error);
}

}  // namespace
}  // namespace camshaft::operators_test

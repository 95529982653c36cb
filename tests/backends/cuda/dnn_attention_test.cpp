// Attention by cuDNN: what of it is offered, and its results against the reference, which need a GPU.
#include <gtest/gtest.h>

#include <limits>

#include "backends/cuda/libraries/dnn.h"
#include "backends/cuda/libraries/dnn_attention_shape.h"
#include "backends/cuda/run_node.h"
#include "reference/random_tensor.h"
#include "test_random.h"

namespace camshaft::cuda::dnn_attention_test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

#define SKIP_WITHOUT_DNN_ATTENTION()                                         \
  SKIP_WITHOUT_GPU();                                                        \
  if (!dnn_library().problem.empty()) GTEST_SKIP() << dnn_library().problem; \
  if (!has_dnn_attention()) GTEST_SKIP() << "this cuDNN is older than 9.19"

struct Case {
  DType dtype = DType::f16;
  int64_t batch = 2, heads = 3, queries = 20, keys = 30, size = 64, value_size = 64;
  int64_t shared = 1;              // queries' heads that have one head of keys
  bool batch_inside = false;       // of rows, as in sequences of batches
  bool several_axes = false;       // rows are two axes, which are as good as one
  std::vector<int64_t> mask = {};  // sizes of its axes: 1, or as many as there are
  bool zero_undefined = false;
};

// All heads side by side in the rows of one tensor.
Shape access(const Case& c, int64_t heads, int64_t rows, int64_t size, bool is_key) {
  const int64_t row = heads * size;
  const int64_t batch = c.batch_inside ? row : rows * row, step = c.batch_inside ? c.batch * row : row;
  Shape made{0, batch, size};
  if (c.shared > 1) made = is_key ? Shape{0, batch, size, 0} : Shape{0, batch, c.shared * size, size};
  if (c.several_axes) made.emplace_back(step * rows / 2);
  made.emplace_back(step);
  made.emplace_back(1);
  return made;
}

ops::Attention operator_of(const Case& c) {
  ops::Attention op;
  op.outer = {c.batch, c.heads};
  if (c.shared > 1) op.outer = {c.batch, c.heads / c.shared, c.shared};
  op.queries = {c.queries};
  op.keys = {c.keys};
  if (c.several_axes) {
    op.queries = {2, c.queries / 2};
    op.keys = {2, c.keys / 2};
  }
  op.size = c.size;
  op.value_size = c.value_size;
  op.query = access(c, c.heads, c.queries, c.size, false);
  op.key = access(c, c.heads / c.shared, c.keys, c.size, true);
  op.value = access(c, c.heads / c.shared, c.keys, c.value_size, true);
  op.result = access(c, c.heads, c.queries, c.value_size, false);
  op.scale = 0.2;
  op.zero_undefined = c.zero_undefined;
  op.shape = {c.batch * c.heads * c.queries * c.value_size};
  if (c.mask.empty()) return op;
  op.masked = {0};
  op.masks.assign(1 + op.outer.size() + op.queries.size() + op.keys.size(), 0);
  int64_t stride = 1;
  for (size_t axis = 4; axis-- > 0;) {
    op.masks[1 + axis] = c.mask[axis] == 1 ? 0 : stride;
    stride *= c.mask[axis];
  }
  return op;
}

NodeTest test_of(const Case& c, Random& random) {
  const auto tensor = [&](int64_t heads, int64_t rows, int64_t size) {
    return random_tensor(random, c.dtype, {c.batch * heads * rows * size});
  };
  std::vector<Tensor> inputs{tensor(c.heads, c.queries, c.size), tensor(c.heads / c.shared, c.keys, c.size),
                             tensor(c.heads / c.shared, c.keys, c.value_size)};
  if (!c.mask.empty()) inputs.push_back(random_tensor(random, c.dtype, Dims(c.mask.begin(), c.mask.end())));
  return {operator_of(c), inputs, "cuda_dnn_attention", c.dtype == DType::f16 ? 2e-3 : 1.6e-2};
}

// In all variants, those that the library does not have being ours.
void check(const Case& c, Random& random) {
  NodeTest test = test_of(c, random);
  const std::vector<std::string> variants = test.variants();
  ASSERT_FALSE(variants.empty());
  for (const std::string& variant : variants) {
    test.variant = variant;
    test.check();
  }
}

TEST(CudaDnnAttention, ShapeOfHeadsSideBySide) {
  const auto s = dnn_attention_shape(operator_of({.queries = 20, .keys = 30, .value_size = 32}), {});
  ASSERT_TRUE(s);
  EXPECT_EQ(s->query.dims, (Dims{2, 3, 20, 64}));
  EXPECT_EQ(s->query.strides, (Dims{20 * 192, 64, 192, 1}));
  EXPECT_EQ(s->key.dims, (Dims{2, 3, 30, 64}));
  EXPECT_EQ(s->value.strides, (Dims{30 * 96, 32, 96, 1}));
  EXPECT_EQ(s->result.dims, (Dims{2, 3, 20, 32}));
  EXPECT_FALSE(s->mask);
}

TEST(CudaDnnAttention, ShapeOfSharedHeadsAndMasks) {
  const auto s = dnn_attention_shape(operator_of({.heads = 6, .shared = 3}), {});
  ASSERT_TRUE(s);
  EXPECT_EQ(s->query.dims, (Dims{2, 6, 20, 64}));
  EXPECT_EQ(s->query.strides, (Dims{20 * 384, 64, 384, 1}));
  EXPECT_EQ(s->key.dims, (Dims{2, 2, 30, 64}));
  EXPECT_EQ(s->key.strides, (Dims{30 * 128, 64, 128, 1}));
  const auto masked = dnn_attention_shape(operator_of({.mask = {2, 1, 20, 30}}), {});
  ASSERT_TRUE(masked && masked->mask);
  EXPECT_EQ(masked->mask->dims, (Dims{2, 1, 20, 30}));
  EXPECT_EQ(masked->mask->strides[2], 30);
  const auto by_key = dnn_attention_shape(operator_of({.mask = {1, 1, 1, 30}}), {});
  ASSERT_TRUE(by_key && by_key->mask);
  EXPECT_EQ(by_key->mask->dims, (Dims{1, 1, 1, 30}));
}

TEST(CudaDnnAttention, ShapesThatAreNotOffered) {
  const auto is_there = [](const ops::Attention& op) { return dnn_attention_shape(op, {}).has_value(); };
  EXPECT_TRUE(is_there(operator_of({})));
  EXPECT_TRUE(is_there(operator_of({.several_axes = true})));
  EXPECT_FALSE(is_there(operator_of({.size = 36})));
  EXPECT_FALSE(is_there(operator_of({.queries = 0})));
  EXPECT_FALSE(is_there(operator_of({.keys = 0})));
  ops::Attention op = operator_of({});
  op.query[0] = 4;  // begins within 16 bytes
  EXPECT_FALSE(is_there(op));
  op = operator_of({});
  op.softcap = 30;
  EXPECT_FALSE(is_there(op));
  op = operator_of({});
  std::swap(op.key[3], op.key[4]);  // columns apart
  EXPECT_FALSE(is_there(op));
  op = operator_of({});
  op.key[1] = op.value[1] = 0;  // keys for all of the batch
  op.key[2] = op.value[2] = 64;
  const auto turned = dnn_attention_shape(op, {});  // whose axis is one of heads then
  ASSERT_TRUE(turned);
  EXPECT_EQ(turned->key.dims, (Dims{3, 1, 30, 64}));
  EXPECT_EQ(turned->query.dims, (Dims{3, 2, 20, 64}));
  op = operator_of({.several_axes = true});
  op.key[3] = op.key[3] + 8;  // axes of keys that are not one
  EXPECT_FALSE(is_there(op));
}

TEST(CudaDnnAttention, ManySizes) {
  SKIP_WITHOUT_DNN_ATTENTION();
  Random random = test_random();
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const int64_t size : {64, 128, 24})
      for (const int64_t queries : {1, 17, 130})
        for (const int64_t keys : {1, 50, 197})
          check({.dtype = dtype, .queries = queries, .keys = keys, .size = size, .value_size = size}, random);
  check({.queries = 70, .keys = 60, .size = 256, .value_size = 256}, random);
  check({.queries = 70, .keys = 600, .size = 40, .value_size = 96}, random);
  check({.batch = 1, .heads = 1}, random);
}

TEST(CudaDnnAttention, LayoutsAndSharedHeads) {
  SKIP_WITHOUT_DNN_ATTENTION();
  Random random = test_random();
  for (const bool batch_inside : {false, true}) check({.batch_inside = batch_inside, .several_axes = true}, random);
  check({.heads = 6, .shared = 3}, random);
  check({.heads = 4, .queries = 1, .shared = 4}, random);
  NodeTest misaligned = test_of({.mask = {1, 3, 20, 30}, .zero_undefined = true}, random);
  misaligned.misaligned = true;
  misaligned.check();
}

TEST(CudaDnnAttention, Masks) {
  SKIP_WITHOUT_DNN_ATTENTION();
  Random random = test_random();
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const std::vector<int64_t>& mask :
         {std::vector<int64_t>{2, 3, 21, 35}, {2, 1, 21, 35}, {1, 3, 1, 35}, {1, 1, 21, 35}, {2, 1, 1, 35}})
      check({.dtype = dtype, .queries = 21, .keys = 35, .mask = mask, .zero_undefined = true}, random);
}

TEST(CudaDnnAttention, RowsThatAreMasked) {
  SKIP_WITHOUT_DNN_ATTENTION();
  Random random = test_random();
  NodeTest test = test_of({.queries = 4, .keys = 40, .mask = {1, 1, 4, 40}, .zero_undefined = true}, random);
  std::vector<double> mask(4 * 40, 0);
  std::fill_n(mask.begin(), 40, -infinity);       // all
  std::fill_n(mask.begin() + 40, 39, -infinity);  // all but one
  std::fill_n(mask.begin() + 80, 40, -65504.0);   // alike
  test.inputs[3] = tensor_of(DType::f16, {1, 1, 4, 40}, mask);
  for (const std::string& variant : test.variants()) {
    test.variant = variant;
    test.check();
  }
  // Without zero_undefined the first row is NaN, which the library does not compute.
  NodeTest undefined = test_of({.mask = {1, 1, 20, 30}}, random);
  EXPECT_TRUE(undefined.variants().empty());
  undefined.constants = {3};
  EXPECT_FALSE(undefined.variants().empty());
}

TEST(CudaDnnAttention, NaNAndInfinity) {
  SKIP_WITHOUT_DNN_ATTENTION();
  Random random = test_random();
  NodeTest test = test_of({.batch = 1, .heads = 1, .queries = 3, .keys = 40}, random);
  std::vector<double> query(3 * 64, 0.5);
  query[7] = std::numeric_limits<double>::quiet_NaN();
  query[64 + 7] = infinity;
  test.inputs[0] = tensor_of(DType::f16, {3 * 64}, query);
  for (const std::string& variant : test.variants()) {
    test.variant = variant;
    test.check();
  }
}

}  // namespace
}  // namespace camshaft::cuda::dnn_attention_test

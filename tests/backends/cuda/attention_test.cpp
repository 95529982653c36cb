// Attention on a GPU, against the reference.
#include "ir/ops/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "backends/cuda/run_node.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "reference/random_tensor.h"
#include "test_random.h"

namespace camshaft::cuda::attention_test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

enum class Layout { dense, heads_side_by_side, columns_apart };

struct Case {
  DType dtype = DType::f16;
  int64_t outer = 2, queries = 5, keys = 7, size = 8, value_size = 8;
  Layout layout = Layout::dense;
  bool shared_keys = false;  // all problems have the same keys and values
  std::vector<DType> masks = {};
  bool one_row = false, one_column = false;  // of masks: all queries, or all keys, share an element
  bool mask_by_outer = false;
  bool zero_undefined = false;
  double masked = -infinity;
  double softcap = 0;
  std::optional<DType> steps = {};  // that the result becomes
};

// A region of an attention and what makes steps of 1 / 64 of its result. `operands`: which tensor each operand is.
Graph body_of(const ops::Attention& op, const std::vector<Tensor>& inputs, const std::vector<size_t>& operands,
              DType steps) {
  using F = ScalarFunction;
  Graph body;
  std::vector<ValueId> ids, read;
  for (size_t i = 0; i < inputs.size(); ++i)
    ids.push_back(body.add_input("x" + std::to_string(i),
                                 {inputs[i].dtype(), Shape(inputs[i].dims().begin(), inputs[i].dims().end())}));
  for (const size_t i : operands) read.push_back(ids[i]);
  const auto number = [&](double x) { return body.add_constant("number", tensor_of(DType::f32, {}, {x})); };
  ValueId last = body.add(op, read, "rows");
  if (body.type(last).dtype != DType::f32) last = body.add(ops::Cast{.to = DType::f32}, {last}, "wide");
  last = body.add(ops::Pointwise{F::div}, {last, number(1.0 / 64)}, "scaled");
  last = body.add(ops::Pointwise{F::round}, {last}, "rounded");
  last = body.add(ops::Pointwise{F::add}, {last, number(steps == DType::u8 ? 120 : -3)}, "moved");
  last = body.add(ops::Cast{.to = steps}, {last}, "steps");
  body.add_output("out", last);
  return body;
}

NodeTest test_of_steps(const ops::Attention& op, const std::vector<Tensor>& inputs, const std::vector<size_t>& operands,
                       DType steps) {
  NodeTest test(ops::Region{ops::RegionKind::attention}, inputs, "cuda_attention");
  test.steps = 1;
  test.bodies = {body_of(op, inputs, operands, steps)};
  return test;
}

// Access by outer, rows, columns, and the elements that it needs.
Shape access(const Case& c, int64_t rows, int64_t size, bool shared) {
  const int64_t problems = shared ? 1 : c.outer;
  switch (c.layout) {
    case Layout::heads_side_by_side:
      return {0, shared ? 0 : size, problems * size, 1};
    case Layout::columns_apart:
      return {0, shared ? 0 : size * rows, 1, rows};
    default:
      return {0, shared ? 0 : size * rows, size, 1};
  }
}

void check(const Case& c, Random& random, bool misaligned = false) {
  ops::Attention op;
  op.outer = {c.outer};
  op.queries = {c.queries};
  op.keys = {c.keys};
  op.size = c.size;
  op.value_size = c.value_size;
  op.query = access(c, c.queries, c.size, false);
  op.key = access(c, c.keys, c.size, c.shared_keys);
  op.value = access(c, c.keys, c.value_size, c.shared_keys);
  op.result = access(c, c.queries, c.value_size, false);
  op.scale = 0.3;
  op.softcap = c.softcap;
  op.zero_undefined = c.zero_undefined;
  op.shape = {c.outer * c.queries * c.value_size};
  const int64_t groups = c.shared_keys ? 1 : c.outer;
  std::vector<Tensor> inputs{random_tensor(random, c.dtype, {c.outer * c.queries * c.size}),
                             random_tensor(random, c.dtype, {groups * c.keys * c.size}),
                             random_tensor(random, c.dtype, {groups * c.keys * c.value_size})};
  for (const DType dtype : c.masks) {
    const int64_t rows = c.one_row ? 1 : c.queries, columns = c.one_column ? 1 : c.keys;
    const int64_t copies = c.mask_by_outer ? c.outer : 1;
    for (const int64_t stride :
         {int64_t{0}, c.mask_by_outer ? rows * columns : 0, c.one_row ? 0 : columns, int64_t{c.one_column ? 0 : 1}})
      op.masks.emplace_back(stride);
    op.masked.push_back(c.masked);
    inputs.push_back(random_tensor(random, dtype, {copies * rows * columns}));
  }
  // What rounding moves a score by grows with the root of its terms, and moves the weights as much.
  const double of_scores = 5e-6 * std::max(1.0, std::sqrt(static_cast<double>(c.size) / 16));
  std::vector<size_t> operands(inputs.size());
  std::iota(operands.begin(), operands.end(), size_t{0});
  NodeTest test = c.steps ? test_of_steps(op, inputs, operands, *c.steps)
                          : NodeTest(op, inputs, "cuda_attention",
                                     c.dtype == DType::f32   ? of_scores
                                     : c.dtype == DType::f16 ? 2e-3
                                                             : 1.6e-2);
  test.misaligned = misaligned;
  test.check();
}

TEST(CudaAttention, ManySizes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const int64_t size : {8, 64, 40, 3})
      for (const int64_t queries : {1, 17, 65})
        for (const int64_t keys : {1, 50, 130})
          check({.dtype = dtype, .queries = queries, .keys = keys, .size = size, .value_size = size}, random);
  for (const DType dtype : {DType::f32, DType::f16}) {
    check({.dtype = dtype, .outer = 1, .queries = 20, .keys = 70, .size = 256, .value_size = 256}, random);
    check({.dtype = dtype, .outer = 1, .queries = 20, .keys = 70, .size = 96, .value_size = 128}, random);
    check({.dtype = dtype, .outer = 1, .queries = 3, .keys = 70, .size = 1, .value_size = 1}, random);
    check({.dtype = dtype, .queries = 3, .keys = 0}, random);
    check({.dtype = dtype, .outer = 0}, random);
  }
}

TEST(CudaAttention, ManyQueriesAtOnce) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  // Enough blocks for wide tiles.
  for (const DType dtype : {DType::f32, DType::f16})
    for (const int64_t size : {16, 136})
      check({.dtype = dtype,
             .outer = 150,
             .queries = 33,
             .keys = 70,
             .size = size,
             .value_size = size,
             .layout = Layout::heads_side_by_side,
             .masks = {dtype}},
            random);
}

// Heads whose matrices whole warpgroups multiply, where the device has that.
TEST(CudaAttention, ManyQueriesByWarpgroups) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  check({.outer = 140, .queries = 20, .keys = 70, .size = 64, .value_size = 64, .layout = Layout::heads_side_by_side},
        random);
  check({.outer = 67, .queries = 66, .keys = 129, .size = 64, .value_size = 64}, random);  // not brief
  check({.outer = 67, .queries = 66, .keys = 50, .size = 120, .value_size = 64, .masks = {DType::f16}}, random);
  check({.dtype = DType::bf16, .outer = 132, .queries = 17, .keys = 130, .size = 64, .value_size = 128}, random);
  check({.outer = 132, .queries = 17, .keys = 20, .size = 64, .value_size = 64, .layout = Layout::columns_apart},
        random, true);
}

TEST(CudaAttention, OneQueryOverManyKeys) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16})
    for (const bool shared : {false, true})
      for (const int64_t keys : {600, 1025})
        check({.dtype = dtype,
               .outer = 3,
               .queries = 1,
               .keys = keys,
               .size = 64,
               .value_size = 64,
               .shared_keys = shared,
               .masks = {DType::boolean},
               .mask_by_outer = true},
              random);
}

TEST(CudaAttention, LayoutsAndAlignment) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const Layout layout : {Layout::dense, Layout::heads_side_by_side, Layout::columns_apart})
      for (const bool misaligned : {false, true})
        check({.dtype = dtype, .outer = 3, .queries = 9, .keys = 40, .size = 24, .value_size = 16, .layout = layout},
              random, misaligned);
}

TEST(CudaAttention, CappedScores) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16})
    for (const double softcap : {0.5, 50.0})
      for (const std::vector<DType>& masks :
           {std::vector<DType>{}, {dtype}, {DType::boolean}, {dtype, DType::boolean}}) {
        check({.dtype = dtype, .queries = 18, .keys = 36, .masks = masks, .softcap = softcap}, random);
        check({.dtype = dtype, .queries = 1, .keys = 600, .masks = masks, .softcap = softcap}, random);
      }
  // Wide tiles, by warpgroups where there are some.
  for (const std::vector<DType>& masks : {std::vector<DType>{}, {DType::f16}})
    check({.outer = 140, .queries = 20, .keys = 70, .size = 64, .value_size = 64, .masks = masks, .softcap = 3},
          random);
}

TEST(CudaAttention, Masks) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16})
    for (const std::vector<DType>& masks :
         {std::vector<DType>{dtype}, {DType::boolean}, {dtype, DType::boolean, dtype}})
      for (const bool one_row : {false, true})
        for (const bool one_column : {false, true})
          for (const bool zero : {false, true})
            for (const double masked : {-infinity, -3e38, -5.0})
              check({.dtype = dtype,
                     .queries = 18,
                     .keys = zero ? 36 : 35,
                     .masks = masks,
                     .one_row = one_row,
                     .one_column = one_column,
                     .zero_undefined = zero,
                     .masked = masked},
                    random);
}

// Masks of tiles with many queries: two keys at once where these lie so, one tile of keys alone, and several.
TEST(CudaAttention, MasksOfManyQueries) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const int64_t size : {32, 64})
    for (const std::vector<DType>& masks :
         {std::vector<DType>{DType::boolean}, {DType::f16}, {DType::f16, DType::f16}, {DType::f16, DType::boolean}})
      for (const auto& [keys, misaligned] :
           {std::pair<int64_t, bool>{49, false}, {98, false}, {98, true}, {130, false}})
        check({.outer = 133,
               .queries = 18,
               .keys = keys,
               .size = size,
               .value_size = size,
               .layout = Layout::heads_side_by_side,
               .masks = masks,
               .zero_undefined = true},
              random, misaligned);
}

// Rows of a mask whose keys are two axes that do not follow each other.
TEST(CudaAttention, MaskOfKeysOnTwoAxes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  constexpr int64_t outer = 133, rows = 18, width = 3, size = 16, pitch = 8;
  ops::Attention op;
  op.outer = {outer};
  op.queries = {rows};
  op.keys = {6, width};
  op.size = op.value_size = size;
  op.query = op.result = {0, rows * size, size, 1};
  op.key = op.value = {0, rows * size, width * size, size, 1};
  op.masks = {0, 0, 6 * pitch, pitch, 1};
  op.masked = {0};
  op.shape = {outer, rows, size};
  for (const DType dtype : {DType::f16, DType::boolean})
    NodeTest(
        op,
        {random_tensor(random, DType::f16, {outer, rows, size}), random_tensor(random, DType::f16, {outer, rows, size}),
         random_tensor(random, DType::f16, {outer, rows, size}), random_tensor(random, dtype, {rows, 6, pitch})},
        "cuda_attention", 2e-3)
        .check();
}

// A window of a picture: rows and columns of queries and keys, and of outer axes, all apart from each other.
TEST(CudaAttention, SeveralAxes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  constexpr int64_t windows = 2, heads = 2, window = 3, size = 8, width = windows * window, row = heads * size;
  ops::Attention op;
  op.outer = {windows, windows, heads};
  op.queries = op.keys = {window, window};
  op.size = op.value_size = size;
  op.query = op.key = op.value = op.result = {0, window * width * row, window * row, size, width * row, row, 1};
  op.masks = {0, 0, 0, 81, 27, 9, 3, 1};
  op.masked = {0};
  op.shape = {width, width, row};
  std::vector<Tensor> inputs;
  for (const DType dtype : {DType::f32, DType::f16}) {
    inputs.clear();
    for (int i = 0; i < 3; ++i) inputs.push_back(random_tensor(random, dtype, {width, width, row}));
    inputs.push_back(random_tensor(random, dtype, {heads, 9, 9}));
    NodeTest(op, inputs, "cuda_attention", dtype == DType::f32 ? 5e-6 : 2e-3).check();
  }
}

// What is written is bytes, in every kernel and at the end of split keys.
TEST(CudaAttention, Bytes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const DType steps : {DType::u8, DType::i8})
      for (const Layout layout : {Layout::dense, Layout::heads_side_by_side, Layout::columns_apart})
        for (const int64_t size : {8, 3, 64})
          check({.dtype = dtype,
                 .queries = 17,
                 .keys = 70,
                 .size = size,
                 .value_size = size,
                 .layout = layout,
                 .masks = {dtype},
                 .steps = steps},
                random);
  check({.outer = 3, .queries = 1, .keys = 600, .size = 64, .value_size = 64, .steps = DType::u8}, random);
  check({.queries = 9, .keys = 36, .masks = {DType::boolean}, .zero_undefined = true, .steps = DType::i8}, random);
  for (const bool misaligned : {false, true})
    check({.outer = 140,
           .queries = 70,
           .keys = 130,
           .size = 64,
           .value_size = 64,
           .layout = Layout::heads_side_by_side,
           .steps = DType::u8},
          random, misaligned);
  check({.queries = 3, .keys = 0, .steps = DType::u8}, random);
  check({.outer = 0, .steps = DType::u8}, random);
}

// Queries, keys and values beside each other in the rows of one tensor, which is one operand of the region.
TEST(CudaAttention, BytesOfOneOperand) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  constexpr int64_t heads = 4, tokens = 21, size = 16, width = heads * size;
  ops::Attention op;
  op.outer = {heads};
  op.queries = op.keys = {tokens};
  op.size = op.value_size = size;
  op.query = {0, size, 3 * width, 1};
  op.key = {width, size, 3 * width, 1};
  op.value = {2 * width, size, 3 * width, 1};
  op.result = {0, size, width, 1};
  op.scale = 0.25;
  op.shape = {tokens, width};
  for (const DType dtype : {DType::f32, DType::f16})
    test_of_steps(op, {random_tensor(random, dtype, {tokens, 3 * width})}, {0, 0, 0}, DType::u8).check();
}

}  // namespace
}  // namespace camshaft::cuda::attention_test

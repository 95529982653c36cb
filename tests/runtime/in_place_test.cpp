// A step may take over the memory of an operand only if it reads each element of it once, where it writes.
#include <gtest/gtest.h>

#include "optimize/fuse/fuse.h"
#include "reference/random_tensor.h"
#include "runtime/support.h"

namespace camshaft::in_place_test {
namespace {

// Runs the model, fused, with random weights; `x` reaches the step in question through a node of its own, so that its
// memory is the engine's and may be taken over.
void expect_as_reference(std::string_view model, const Dims& dims) {
  Random random = test_random();
  Graph graph = parse_graph(model, operators());
  for (Value& v : graph.values)
    if (v.constant && v.constant->size() > 1)
      v.constant = std::make_shared<const Tensor>(random_tensor(random, DType::f32, v.constant->dims()));
  const Tensor x = random_tensor(random, DType::f32, dims);
  ThreadPool pool(1);
  const std::vector<double> expected = evaluate(graph, {x}, pool)[0].to_doubles();
  fuse(graph, PassContext{.pool = pool});
  const std::vector<double> actual = run_engine(compile_graph(graph, find_backend("cpu")), {x})[0].to_doubles();
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 1e-3 * std::max(1.0, std::abs(expected[i]))) << i;
}

TEST(InPlace, ResidualIsTheOperandOfTheMatMul) {
  expect_as_reference(R"(graph (%x: f32[rows, 512]) {
    const %w: f32[512, 512] = 1
    %a = softmax {axis=1} (%x)
    %m = matmul (%a, %w)
    %y = pointwise {function=add} (%m, %a)
    %z = softmax {axis=1} (%y)
    return "z" = %z
  })",
                      {37, 512});
}

TEST(InPlace, ResidualIsTheImageOfTheConvolution) {
  expect_as_reference(R"(graph (%x: f32[n, 9, 11, 32]) {
    const %w: f32[32, 32, 3, 3] = 1
    %a = softmax {axis=3} (%x)
    %c = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], channels_last=true} (%a, %w)
    %y = pointwise {function=add} (%c, %a)
    %z = softmax {axis=3} (%y)
    return "z" = %z
  })",
                      {2, 9, 11, 32});
}

TEST(InPlace, ResidualIsReadAgainByTheEpilogue) {
  expect_as_reference(R"(graph (%x: f32[rows, 64]) {
    const %w: f32[64, 48] = 1
    const %v: f32[64, 48] = 1
    %b = matmul (%x, %v)
    %r = softmax {axis=1} (%b)
    %m = matmul (%x, %w)
    %s = pointwise {function=add} (%m, %r)
    %y = pointwise {function=mul} (%s, %r)
    %z = softmax {axis=1} (%y)
    return "z" = %z
  })",
                      {37, 64});
}

TEST(InPlace, ResidualIsAddedTwiceAmongOthers) {
  expect_as_reference(R"(graph (%x: f32[rows, 64]) {
    const %w: f32[64, 80] = 1
    const %v: f32[64, 80] = 1
    const %zero: f32[] = 0
    %b = matmul (%x, %v)
    %r = softmax {axis=1} (%b)
    %q = softmax {axis=0} (%b)
    %m = matmul (%x, %w)
    %s = pointwise {function=add} (%m, %r)
    %t = pointwise {function=add} (%q, %s)
    %u = pointwise {function=add} (%t, %r)
    %y = pointwise {function=max} (%u, %zero)
    %z = softmax {axis=1} (%y)
    return "z" = %z
  })",
                      {37, 64});
}

TEST(InPlace, ConvolutionsAddSeveralResiduals) {
  expect_as_reference(R"(graph (%x: f32[n, 9, 11, 32]) {
    const %w: f32[72, 32, 1, 1] = 1
    const %v: f32[72, 32, 1, 1] = 1
    const %zero: f32[] = 0
    %b = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} (%x, %v)
    %p = softmax {axis=3} (%b)
    %q = softmax {axis=2} (%b)
    %r = softmax {axis=1} (%b)
    %s = softmax {axis=0} (%b)
    %c = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} (%x, %w)
    %y1 = pointwise {function=add} (%c, %p)
    %y2 = pointwise {function=add} (%y1, %q)
    %y3 = pointwise {function=add} (%y2, %r)
    %y4 = pointwise {function=add} (%y3, %s)
    %y = pointwise {function=max} (%y4, %zero)
    %z = softmax {axis=3} (%y)
    return "z" = %z
  })",
                      {2, 9, 11, 32});
}

}  // namespace
}  // namespace camshaft::in_place_test

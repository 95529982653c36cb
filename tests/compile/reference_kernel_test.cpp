// Any operator as a kernel.
#include <gtest/gtest.h>

#include "compile/fake_backend.h"
#include "ir/ops/operators.h"
#include "ir/text.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::reference_kernel_test {
namespace {

struct Compiled {
  Graph graph;
  std::shared_ptr<const Kernel> kernel;
  explicit Compiled(const std::string& text) : graph(parse_graph(text, operators())) {
    const SymbolBindings none;
    kernel = make_reference_kernel({graph, graph.nodes[0], none});
  }
};

TEST(ReferenceKernel, RunsIntoGivenMemory) {
  Random random = test_random();
  const Compiled c(R"(graph (%x: f32[n, 3], %b: f32[3]) {
    %y, %unused = region {kind=opaque} (%x, %b)
    graph (%x: f32[n, 3], %b: f32[3]) {
      %s = pointwise {function=add} (%x, %b)
      %t = transpose {permutation=[1, 0]} (%s)
      return %t, %s
    }
    return %y
  })");
  EXPECT_FALSE(c.kernel->has_dynamic_outputs());
  ThreadPool pool(1);
  const Tensor b = random_tensor(random, DType::f32, {3});
  for (const int64_t n : {4, 0, 1}) {
    const SymbolBindings symbols{{"n", n}};
    const KernelShapes shapes{
        {{DType::f32, {n, 3}}, {DType::f32, {3}}}, {{DType::f32, {3, n}}, {DType::f32, {n, 3}}}, &symbols, 1};
    const auto launch = c.kernel->prepare(shapes);
    const Tensor x = random_tensor(random, DType::f32, {n, 3});
    const Tensor expected = evaluate(c.graph, {x, b}, pool)[0];
    Tensor y(DType::f32, {3, n}), s(DType::f32, {n, 3});
    const std::byte* inputs[] = {x.data(), b.data()};
    std::byte* outputs[] = {y.mutable_data(), s.mutable_data()};
    for (int run = 0; run < 2; ++run) launch->run({inputs, outputs, nullptr, pool});
    EXPECT_EQ(y, expected);
    std::byte* only_one[] = {y.mutable_data(), nullptr};
    launch->run({inputs, only_one, nullptr, pool});
  }
}

TEST(ReferenceKernel, OmittedInputs) {
  const Compiled c("graph (%x: f32[2, 3], %b: f32[3]) { %y = layer_norm {axis=1} (%x, -, %b) return %y }");
  ThreadPool pool(1);
  const SymbolBindings none;
  const auto launch =
      c.kernel->prepare({{{DType::f32, {2, 3}}, {}, {DType::f32, {3}}}, {{DType::f32, {2, 3}}}, &none, 1});
  const Tensor x = Tensor::of<float>(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6}), b(DType::f32, {3});
  Tensor y(DType::f32, {2, 3});
  const std::byte* inputs[] = {x.data(), nullptr, b.data()};
  std::byte* outputs[] = {y.mutable_data()};
  launch->run({inputs, outputs, nullptr, pool});
  EXPECT_EQ(y, evaluate(c.graph, {x, b}, pool)[0]);
}

TEST(ReferenceKernel, SizesFromData) {
  const Compiled c("graph (%a: i64[], %b: i64[], %d: i64[]) { %y = range (%a, %b, %d) return %y }");
  EXPECT_TRUE(c.kernel->has_dynamic_outputs());
  ThreadPool pool(1);
  const auto scalar = [](int64_t v) { return Tensor::of<int64_t>(DType::i64, {}, {v}); };
  EXPECT_EQ(c.kernel->run_dynamic({scalar(2), scalar(9), scalar(3)}, {}, pool)[0], Tensor::from_ints({2, 5, 8}));
}

TEST(ReferenceKernel, StringsOwnTheirMemory) {
  const Compiled out("graph (%x: string[3], %i: i64[2]) { %y = gather {axis=0} (%x, %i) return %y }");
  EXPECT_TRUE(out.kernel->has_dynamic_outputs());
}

TEST(ReferenceKernel, RefusesWhatDoesNotFit) {
  const Compiled c("graph (%a: f32[m, k], %b: f32[j, n]) { %y = matmul (%a, %b) return %y }");
  ThreadPool pool(1);
  const SymbolBindings symbols{{"m", 2}, {"k", 3}, {"j", 4}, {"n", 5}};
  const auto launch =
      c.kernel->prepare({{{DType::f32, {2, 3}}, {DType::f32, {4, 5}}}, {{DType::f32, {2, 5}}}, &symbols, 1});
  const Tensor a(DType::f32, {2, 3}), b(DType::f32, {4, 5});
  Tensor y(DType::f32, {2, 5});
  const std::byte* inputs[] = {a.data(), b.data()};
  std::byte* outputs[] = {y.mutable_data()};
  EXPECT_THROW(launch->run({inputs, outputs, nullptr, pool}), Error);
}

}  // namespace
}  // namespace camshaft::reference_kernel_test

// Shape arithmetic that folds gives what running gives.
#include "ir/ops/generate.h"
#include "ir/ops/pointwise.h"
#include "reference/single_op.h"

namespace camshaft::ops::content_test {
namespace {

using F = ScalarFunction;

// What a rule says of the elements is what running gives.
TEST(Content, AgreesWithEvaluation) {
  Graph graph;
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  const auto dims = [&](const Dim& d) { return graph.add(DimsTensor{{d}, DType::i64, false}, {}, "d"); };
  const F functions[] = {F::add, F::sub, F::mul,   F::div,  F::mod,          F::fmod,
                         F::min, F::max, F::equal, F::less, F::less_or_equal};
  for (const F f : functions)
    for (const Dim& a : {n, n * m, n + Dim(3), Dim(5), Dim(0)})
      for (const Dim& b : {m, n, Dim(3), m + Dim(1)}) {
        const auto content = graph.value(graph.add(Pointwise{f}, {dims(a), dims(b)}, "y")).content;
        if (!content) continue;
        for (int64_t size = 1; size < 9; ++size) {
          const SymbolBindings bindings{{"n", size}, {"m", 9 - size}};
          const Tensor got =
              run_op(Pointwise{f}, {i64({1}, {a.evaluate(bindings)}), i64({1}, {b.evaluate(bindings)})})[0];
          EXPECT_EQ(got.to_ints()[0], (*content)[0].evaluate(bindings)) << to_string(f) << a.str() << ", " << b.str();
        }
      }
}

}  // namespace
}  // namespace camshaft::ops::content_test

// Kernels end soon once what they run for was cancelled.
#include "backends/cpu/run_node.h"
#include "base/cancellation_points.h"
#include "base/work_scope.h"
#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "ir/ops/resize.h"
#include "ir/ops/select.h"

namespace camshaft::cpu::cancellation_test {
namespace {

std::vector<std::string> tactics_of(const Op& op, const std::vector<Tensor>& inputs, const std::vector<size_t>& known) {
  Graph graph;
  std::vector<ValueId> ids;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_known = std::find(known.begin(), known.end(), i) != known.end();
    const Shape shape(inputs[i].dims().begin(), inputs[i].dims().end());
    ids.push_back(is_known ? graph.add_constant("c", inputs[i]) : graph.add_input("x", {inputs[i].dtype(), shape}));
  }
  graph.add_output("y", graph.add(op, ids, "y"));
  const SymbolBindings symbols;
  std::vector<std::string> names;
  for (const Tactic& tactic : backend()->tactics({graph, graph.nodes.back(), symbols})) names.push_back(tactic.name);
  return names;
}

TEST(CancelledKernels, EndSoon) {
  const Tensor matrix(DType::f32, {800, 800}), image(DType::f32, {1, 64, 64, 32}), batch(DType::f32, {8, 100, 100});
  const Tensor weights(DType::f32, {32, 32, 3, 3}), k = Tensor::scalar(DType::i64, 100).reshaped({1});
  ops::Conv conv{{1, 1}, {1, 1, 1, 1}, {1, 1}};
  conv.channels_last = true;
  ops::Pool pool;
  pool.kernel = {5, 5};
  pool.strides = pool.dilations = {1, 1};
  pool.pads = Shape(4, Dim(2));
  pool.channels_last = true;
  struct Sample {
    Op op;
    std::vector<Tensor> inputs;
    std::vector<size_t> known;
  };
  const Sample samples[] = {
      {ops::MatMul{}, {matrix, matrix}, {1}},
      {ops::MatMul{}, {batch, batch}, {}},
      {conv, {image, weights}, {1}},
      {pool, {image}, {}},
      {ops::Softmax{1}, {matrix}, {}},
      {ops::Softmax{0}, {matrix}, {}},
      {ops::Reduce{ops::ReduceKind::sum, {1}, false}, {matrix}, {}},
      {ops::LayerNorm{1, 1e-5}, {matrix}, {}},
      {ops::TopK{1}, {Tensor(DType::f32, {1000, 1000}), k}, {1}},
  };
  for (const Sample& sample : samples) {
    int tried = 0;
    for (const std::string& tactic : tactics_of(sample.op, sample.inputs, sample.known)) {
      if (tactic == "reference") continue;
      ++tried;
      for (const int threads : {1, 3}) {
        const NodeTest node(sample.op, sample.inputs, sample.known, tactic);
        const Cancellation cancellation;
        const WorkScope scope(cancellation);
        node.run(threads);
        cancellation.cancel();
        try {
          node.run(threads);
          ADD_FAILURE() << sample.op.name() << " by " << tactic << " went on";
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), ErrorCode::cancelled) << sample.op.name() << " by " << tactic;
        }
      }
    }
    EXPECT_GT(tried, 0) << sample.op.name();
  }
}

// What is counted is how often they ask, not time.
TEST(CancelledKernels, AskWithinOneLongLine) {
  constexpr int64_t length = 3 << 20;
  const auto asked = [](const Op& op, const std::vector<Tensor>& inputs, const std::vector<size_t>& known) {
    const NodeTest node(op, inputs, known, std::string(op.name()));
    const int64_t before = cancellation_points_passed();
    node.run(1);
    return cancellation_points_passed() - before;
  };
  const auto count = [](int64_t k) { return Tensor::scalar(DType::i64, static_cast<double>(k)).reshaped({1}); };
  const Tensor line(DType::f32, {length});
  const int64_t of_few = asked(ops::TopK{0}, {line, count(100)}, {1});
  EXPECT_GE(of_few, length >> 18);
  // All are sorted and written: much more than what looks for few.
  EXPECT_GE(asked(ops::TopK{0}, {line, count(length)}, {1}), 16 * of_few);
  EXPECT_GE(asked(ops::Concat{0}, {line, line}, {}), length * 8 >> 21);
}

}  // namespace
}  // namespace camshaft::cpu::cancellation_test

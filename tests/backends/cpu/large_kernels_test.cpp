// Kernels over millions of elements ask often enough whether they are to stop. What is counted is how often they ask
// for the elements that they read and write, not time.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "backends/cpu/backend.h"
#include "base/aligned_buffer.h"
#include "base/cancellation_points.h"
#include "base/thread_pool.h"
#include "reference/large_operators.h"

namespace camshaft::cpu::large_kernels_test {
namespace {

int64_t elements_of(const std::vector<Tensor>& tensors) {
  int64_t count = 0;
  for (const Tensor& t : tensors)
    if (t.defined()) count += t.size();
  return count;
}

bool takes_objects(const std::vector<Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const Tensor& t) { return t.defined() && holds_objects(t.dtype()); });
}

/// A launch on one thread asks so often.
int64_t times_asked(const RegionView& region, const Tactic& tactic, const std::vector<Tensor>& operands,
                    std::vector<Tensor> results) {
  const SymbolBindings symbols;
  PackedConstants packed;
  const auto kernel = backend()->compile(region, tactic, packed);
  ThreadPool pool(1);
  int64_t before = cancellation_points_passed();
  if (kernel->has_dynamic_outputs()) {
    kernel->run_dynamic(operands, symbols, pool, nullptr);
    return cancellation_points_passed() - before;
  }
  KernelShapes shapes;
  shapes.symbols = &symbols;
  shapes.threads = 1;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Tensor& t = operands[i];
    shapes.inputs.push_back(t.defined() ? OperandShape{t.dtype(), t.dims()} : OperandShape{});
    in.push_back(t.defined() && kernel->reads_input(i) ? t.data() : nullptr);
  }
  for (Tensor& t : results) {
    shapes.outputs.push_back({t.dtype(), t.dims()});
    t = Tensor(t.dtype(), t.dims());
    out.push_back(t.mutable_data());
  }
  const auto launch = kernel->prepare(shapes);
  AlignedBuffer workspace(launch->workspace_bytes() + 64, "test");
  before = cancellation_points_passed();
  launch->run({in, out, workspace.data(), pool});
  return cancellation_points_passed() - before;
}

// A kernel takes a nanosecond for an element, a convolution some: this is some 10 ms. A row may be asked once.
constexpr int64_t most_between = 1 << 23;
// What only copies whole runs of bytes takes as long as memory does, some seconds for all that there is.
constexpr std::string_view copies[] = {"expand", "concat", "slice", "transpose"};

TEST(LargeKernels, AskWhetherTheyAreToStop) {
  ThreadPool pool(2);
  for (const samples_detail::SampleText& text : large_operators) {
    SCOPED_TRACE(text.nodes);
    const LargeSample sample(text, pool);
    const std::vector<Tensor> results = sample.evaluate(pool);
    const int64_t elements = std::max(elements_of(sample.operands()), elements_of(results));
    if (elements < 1 << 21 || takes_objects(sample.operands()) || takes_objects(results)) continue;
    const SymbolBindings symbols;
    Graph graph;  // with what comes before as inputs and constants
    std::vector<ValueId> ids;
    for (size_t i = 0; i < sample.operands().size(); ++i) {
      const Tensor& t = sample.operands()[i];
      const bool is_constant = t.defined() && sample.graph().is_constant(sample.node().inputs[i]);
      ids.push_back(!t.defined()  ? no_value
                    : is_constant ? graph.add_constant("c", t)
                                  : graph.add_input("x", {t.dtype(), Shape(t.dims().begin(), t.dims().end())}));
    }
    graph.add_node(sample.node().op, ids, std::vector<std::string>(results.size(), "y"), {}, sample.node().bodies);
    const RegionView region{graph, graph.nodes.back(), symbols, 1};
    for (const Tactic& tactic : backend()->tactics(region)) {
      if (tactic.name == "reference") continue;  // whose operators tests/reference/large_operators_test.cpp asks
      if (std::count(std::begin(copies), std::end(copies), tactic.name) > 0) continue;
      const int64_t asked = times_asked(region, tactic, sample.operands(), results);
      EXPECT_GE(asked * most_between, elements) << tactic.str() << " asked " << asked << " times";
    }
  }
}

}  // namespace
}  // namespace camshaft::cpu::large_kernels_test

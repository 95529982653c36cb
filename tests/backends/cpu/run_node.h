// Runs one operator through a tactic of the CPU backend and holds it to its reference evaluation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/backend.h"
#include "backends/cpu/guarded.h"
#include "base/aligned_buffer.h"
#include "ir/graph.h"
#include "reference/evaluate.h"

namespace camshaft::cpu {

/// That of a number of f16 or bf16; 0 of other types.
inline double unit_in_last_place(DType dtype, double size) {
  if (dtype != DType::f16 && dtype != DType::bf16) return 0;
  const int digits = dtype == DType::f16 ? 10 : 7, least = dtype == DType::f16 ? -14 : -126;
  return std::ldexp(1, std::max(size > 0 ? std::ilogb(size) : least, least) - digits);
}

/// A node with its operands. An undefined tensor is an omitted input; those in `constants` (all others are inputs) are
/// known when the kernel is compiled. The kernel writes into memory filled with garbage, and must not write beyond; its
/// operands end where readable memory ends.
class NodeTest {
 public:
  NodeTest(Op tested, std::vector<Tensor> operands, std::vector<size_t> known, std::string name, double difference = 0)
      : op(std::move(tested)),
        inputs(std::move(operands)),
        constants(std::move(known)),
        tactic(std::move(name)),
        tolerance(difference) {
    std::transform(inputs.begin(), inputs.end(), inputs.begin(), guarded);
  }

  Op op;
  std::vector<Tensor> inputs;
  std::vector<size_t> constants;
  std::string tactic;
  size_t outputs = 1;
  std::vector<Graph> bodies;  ///< of a region
  int over = -1;              ///< the input that output 0 is written over; none
  double tolerance = 0;       ///< of the largest finite magnitude of an output; 0: equal, or both NaN
  /// Whether results of f16 and bf16 may differ by a unit in the last place beside the tolerance, which is that of f32
  /// then: sums that hardly differ may be rounded to neighbours.
  bool rounds = false;

  /// Both ways, and compares.
  void check(int threads) const {
    std::string sizes;
    for (const Tensor& t : inputs) sizes += t.defined() ? " " + to_string(t.dims()) : " -";
    SCOPED_TRACE(to_string(op) + " on" + sizes + ", " + std::to_string(threads) + " threads");
    const Graph graph = graph_of_node();
    ThreadPool pool(threads);
    const std::vector<Tensor> expected = evaluated(graph, pool);
    const std::vector<Tensor> actual = run(threads);
    ASSERT_EQ(actual.size(), outputs);
    for (size_t o = 0; o < outputs; ++o) compare(actual[o], expected[o], o);
  }

  /// What the kernel gives. Output shapes are those of the shape rule.
  std::vector<Tensor> run(int threads) const {
    const Graph graph = graph_of_node();
    const SymbolBindings symbols;
    const RegionView region{graph, graph.nodes.back(), symbols};
    ThreadPool pool(threads);
    PackedConstants packed;
    const auto tactics = backend()->tactics(region);
    const auto found = std::find_if(tactics.begin(), tactics.end(), [&](const Tactic& t) { return t.name == tactic; });
    if (found == tactics.end()) {
      ADD_FAILURE() << "no tactic " << tactic;
      return {};
    }
    const auto kernel = backend()->compile(region, *found, packed);
    if (kernel->has_dynamic_outputs()) return kernel->run_dynamic(inputs, symbols, pool, nullptr);
    KernelShapes shapes;
    shapes.symbols = &symbols;
    shapes.threads = threads;
    for (const Tensor& t : inputs)
      shapes.inputs.push_back(t.defined() ? OperandShape{t.dtype(), t.dims()} : OperandShape{});
    std::vector<Tensor> results;
    for (const ValueId id : region.node.outputs) {
      Dims dims;
      for (const Dim& d : graph.shape(id)) dims.push_back(d.evaluate(symbols));
      shapes.outputs.push_back({graph.type(id).dtype, dims});
      results.emplace_back(graph.type(id).dtype, dims);
    }
    const auto launch = kernel->prepare(shapes);
    constexpr size_t guard = 64;
    constexpr std::byte garbage{0x7f};
    AlignedBuffer workspace(launch->workspace_bytes() + guard, "test");
    std::fill_n(workspace.data(), workspace.size(), garbage);
    std::vector<AlignedBuffer> memory;
    for (int round = 0; round < 2; ++round) {  // a second run finds what the first left behind
      std::vector<const std::byte*> in;
      std::vector<std::byte*> out;
      for (size_t i = 0; i < inputs.size(); ++i)
        in.push_back(inputs[i].defined() && kernel->reads_input(i) ? inputs[i].data() : nullptr);
      memory.clear();
      for (const Tensor& t : results) {
        memory.emplace_back(t.bytes() + guard, "test");
        std::fill_n(memory.back().data(), memory.back().size(), garbage);
        out.push_back(memory.back().data());
      }
      if (over >= 0) {
        const auto i = static_cast<size_t>(over);
        EXPECT_TRUE(kernel->can_run_in_place(i, 0));
        std::copy_n(inputs[i].data(), inputs[i].bytes(), out[0]);
        in[i] = out[0];
      }
      launch->run({in, out, workspace.data(), pool});
    }
    const auto intact = [&](const AlignedBuffer& buffer, size_t used) {
      return std::all_of(buffer.data() + used, buffer.data() + used + guard, [&](std::byte b) { return b == garbage; });
    };
    EXPECT_TRUE(intact(workspace, launch->workspace_bytes())) << "written behind the workspace";
    for (size_t o = 0; o < results.size(); ++o) {
      EXPECT_TRUE(intact(memory[o], results[o].bytes())) << "written behind output " << o;
      std::copy_n(memory[o].data(), results[o].bytes(), results[o].mutable_data());
    }
    return results;
  }

  /// What the tactic is thought to take, in seconds.
  double estimate(int threads) const {
    const Graph graph = graph_of_node();
    const SymbolBindings symbols;
    for (const Tactic& t : backend()->tactics({graph, graph.nodes.back(), symbols, threads}))
      if (t.name == tactic) return t.estimated_seconds;
    ADD_FAILURE() << "no tactic " << tactic;
    return 0;
  }

  Graph graph_of_node() const {
    Graph graph;
    std::vector<ValueId> ids;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& t = inputs[i];
      if (!t.defined()) {
        ids.push_back(no_value);
      } else if (std::find(constants.begin(), constants.end(), i) != constants.end()) {
        ids.push_back(graph.add_constant("c" + std::to_string(i), t));
      } else {
        ids.push_back(graph.add_input("x" + std::to_string(i), {t.dtype(), Shape(t.dims().begin(), t.dims().end())}));
      }
    }
    std::vector<std::string> names;
    for (size_t o = 0; o < outputs; ++o) names.push_back("y" + std::to_string(o));
    graph.add_node(op, ids, names, {}, bodies);
    return graph;
  }

  std::vector<Tensor> evaluated(const Graph& graph, ThreadPool& pool) const {
    std::vector<TensorType> types;
    for (const ValueId id : graph.nodes.back().outputs) types.push_back(graph.type(id));
    const SymbolBindings symbols;
    return evaluate(op, {inputs, types, symbols, bodies, pool});
  }

  void compare(const Tensor& actual, const Tensor& expected, size_t output) const {
    ASSERT_EQ(actual.dtype(), expected.dtype());
    ASSERT_EQ(actual.dims(), expected.dims());
    if (!is_floating(expected.dtype())) {
      ASSERT_TRUE(actual == expected) << "output " << output;
      return;
    }
    const std::vector<double> got = actual.to_doubles(), wanted = expected.to_doubles();
    double scale = 1;
    for (const double w : wanted)
      if (std::isfinite(w)) scale = std::max(scale, std::abs(w));
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (std::isnan(wanted[i]) || std::isinf(wanted[i]) || tolerance == 0) {
        ASSERT_TRUE(std::isnan(wanted[i]) ? std::isnan(got[i]) : got[i] == wanted[i])
            << got[i] << " for " << wanted[i] << " at " << i << " of output " << output;
      } else {
        const double unit =
            rounds ? unit_in_last_place(expected.dtype(), std::max(std::abs(got[i]), std::abs(wanted[i]))) : 0;
        ASSERT_NEAR(got[i], wanted[i], tolerance * scale + unit) << "at " << i << " of output " << output;
      }
    }
  }
};

}  // namespace camshaft::cpu

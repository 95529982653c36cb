// Runs one operator through a tactic of the CPU backend and holds it to its reference evaluation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/aligned_buffer.h"
#include "cpu/backend.h"
#include "graph/graph.h"

namespace camshaft::cpu {

/// A node with its operands. An undefined tensor is an omitted input; those in `constants` (all others are inputs) are
/// known when the kernel is compiled. The kernel writes into memory filled with garbage, and must not write beyond.
struct NodeTest {
  Op op;
  std::vector<Tensor> inputs;
  std::vector<size_t> constants = {};
  std::string tactic = {};
  double tolerance = 0;  ///< of the largest finite magnitude of an output; 0: equal bits of integers and floats

  void check(int threads) const {
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
    graph.add(op, ids, "y");
    const Node& node = graph.nodes.back();
    const SymbolBindings symbols;
    const RegionView region{graph, node, symbols};
    SCOPED_TRACE(to_string(op));
    std::string sizes;
    for (const Tensor& t : inputs) sizes += t.defined() ? " " + to_string(t.dims()) : " -";
    SCOPED_TRACE("inputs" + sizes + ", " + std::to_string(threads) + " threads");
    ThreadPool pool(threads);
    std::vector<TensorType> types;
    for (const ValueId id : node.outputs) types.push_back(graph.type(id));
    const std::vector<Graph> bodies;
    const std::vector<Tensor> expected = op.evaluate({inputs, types, symbols, bodies, pool});

    PackedConstants packed;
    const auto tactics = backend()->tactics(region);
    const auto found = std::find_if(tactics.begin(), tactics.end(), [&](const Tactic& t) { return t.str() == tactic; });
    ASSERT_NE(found, tactics.end()) << "no tactic " << tactic;
    const auto kernel = backend()->compile(region, *found, packed);
    std::vector<Tensor> actual;
    if (kernel->has_dynamic_outputs()) {
      actual = kernel->run_dynamic(inputs, symbols, pool, nullptr);
    } else {
      KernelShapes shapes;
      shapes.symbols = &symbols;
      shapes.threads = threads;
      for (const Tensor& t : inputs)
        shapes.inputs.push_back(t.defined() ? OperandShape{t.dtype(), t.dims()} : OperandShape{});
      for (const Tensor& t : expected) shapes.outputs.push_back({t.dtype(), t.dims()});
      const auto launch = kernel->prepare(shapes);
      AlignedBuffer workspace(launch->workspace_bytes() + 64, "test");
      std::fill_n(workspace.data(), workspace.size(), std::byte{0x7f});
      constexpr size_t guard = 64;
      std::vector<AlignedBuffer> memory;
      for (int round = 0; round < 2; ++round) {  // a second run finds what the first left behind
        std::vector<const std::byte*> in;
        std::vector<std::byte*> out;
        for (size_t i = 0; i < inputs.size(); ++i)
          in.push_back(inputs[i].defined() && kernel->reads_input(i) ? inputs[i].data() : nullptr);
        memory.clear();
        for (const Tensor& t : expected) {
          memory.emplace_back(t.bytes() + guard, "test");
          std::fill_n(memory.back().data(), memory.back().size(), std::byte{0x7f});
          out.push_back(memory.back().data());
        }
        launch->run({in, out, workspace.data(), pool});
      }
      for (size_t o = 0; o < expected.size(); ++o) {
        for (size_t i = 0; i < guard; ++i)
          ASSERT_EQ(memory[o].data()[expected[o].bytes() + i], std::byte{0x7f}) << "written behind output " << o;
        actual.push_back(
            Tensor(expected[o].dtype(), expected[o].dims(), {memory[o].data(), expected[o].bytes()}, nullptr).copy());
      }
      for (size_t i = launch->workspace_bytes(); i < workspace.size(); ++i)
        ASSERT_EQ(workspace.data()[i], std::byte{0x7f}) << "written behind the workspace";
    }
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t o = 0; o < expected.size(); ++o) compare(actual[o], expected[o], o);
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
        ASSERT_NEAR(got[i], wanted[i], tolerance * scale) << "at " << i << " of output " << output;
      }
    }
  }
};

}  // namespace camshaft::cpu

// Runs one operator through a tactic of the GPU backend and holds it to its reference evaluation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/backend.h"
#include "backends/cuda/backend.h"
#include "backends/cuda/driver/device.h"
#include "backends/cuda/libraries/libraries.h"
#include "base/error.h"
#include "ir/graph.h"
#include "ir/ops/pointwise.h"
#include "reference/element_io.h"
#include "reference/evaluate.h"

namespace camshaft::cuda {

/// The GPU; null, with the reason in `problem`, where there is none.
inline std::shared_ptr<const Backend> backend_if_any(std::string& problem) {
  try {
    return backend(0, cpu::backend());
  } catch (const Error& e) {
    problem = e.what();
    return nullptr;
  }
}

/// Ends a test that needs a GPU where there is none, and says so.
#define SKIP_WITHOUT_GPU() \
  if (std::string problem; !::camshaft::cuda::backend_if_any(problem)) GTEST_SKIP() << problem

/// What the GPU can do; nothing where there is none.
inline DeviceFeatures gpu_features() {
  const Library<api::Driver>& driver = driver_library();
  const auto gpus = driver.problem.empty() ? list_devices(driver.functions) : std::vector<DeviceFacts>();
  return gpus.empty() ? DeviceFeatures() : gpus[0].features;
}

/// What matrix products and convolutions are tested in: Turing has none of bf16.
inline std::vector<DType> types_of_products() {
  if (const auto gpu = gpu_features(); gpu.is_supported && !gpu.bf16_products) return {DType::f32, DType::f16};
  return {DType::f32, DType::f16, DType::bf16};
}

/// A tensor of floats.
inline Tensor tensor_of(DType dtype, const Dims& dims, const std::vector<double>& values) {
  Tensor made(dtype, dims);
  if (!values.empty())
    ops::store_elements(dtype, made.mutable_data(), 0, 1, static_cast<int64_t>(values.size()), values.data());
  return made;
}

/// A node with its operands. An undefined tensor is an omitted input; those in `constants` are known when the kernel is
/// compiled. The kernel writes into memory filled with garbage, and must not write beyond.
class NodeTest {
 public:
  NodeTest(Op tested, std::vector<Tensor> operands, std::string name, double difference = 0)
      : op(std::move(tested)), inputs(std::move(operands)), tactic(std::move(name)), tolerance(difference) {}

  Op op;
  std::vector<Tensor> inputs;
  std::string tactic;        ///< its name, or with the parameters of a variant
  std::string variant = {};  ///< a part of the tactic's name with its parameters; empty: the first
  std::vector<size_t> constants = {};
  std::vector<size_t> computed = {};                     ///< operands that are no inputs of the model
  std::vector<Graph> bodies = {};                        ///< of a region
  std::vector<std::pair<size_t, size_t>> in_place = {};  ///< inputs, and the outputs that are written over them
  size_t outputs = 1;
  double tolerance = 0;  ///< of the largest finite magnitude of an output, or of least_scale; 0: equal, or both NaN
  double least_scale = 1;
  double steps = 0;         ///< that integers may differ by
  bool misaligned = false;  ///< operands begin one element behind an aligned address

  /// Both ways, and compares.
  void check() const {
    std::string sizes;
    for (const Tensor& t : inputs)
      sizes += t.defined() ? " " + std::string(to_string(t.dtype())) + to_string(t.dims()) : " -";
    SCOPED_TRACE(to_string(op) + " on" + sizes + (misaligned ? ", misaligned" : ""));
    const Graph graph = graph_of_node();
    ThreadPool pool(2);
    std::vector<TensorType> types;
    for (const ValueId id : graph.nodes.back().outputs) types.push_back(graph.type(id));
    const std::vector<Tensor> expected = evaluate(op, {inputs, types, {}, bodies, pool}), actual = run_all();
    ASSERT_EQ(actual.size(), outputs);
    for (size_t o = 0; o < outputs; ++o) compare(actual[o], expected[o]);
  }

  /// What the kernel gives first.
  Tensor run() const {
    const std::vector<Tensor> all = run_all();
    return all.empty() ? Tensor() : all[0];
  }

  /// All variants of the tactic.
  std::vector<std::string> variants() const {
    std::string problem;
    const Graph graph = graph_of_node();
    std::vector<std::string> names;
    for (const Tactic& t : backend_if_any(problem)->tactics({graph, graph.nodes.back(), {}}))
      if (t.name == tactic) names.push_back(t.str());
    return names;
  }

  /// What the kernel gives.
  std::vector<Tensor> run_all() const {
    std::string problem;
    const auto gpu = backend_if_any(problem);
    const Graph graph = graph_of_node();
    const SymbolBindings symbols;
    const RegionView region{graph, graph.nodes.back(), symbols};
    ThreadPool pool(1);
    PackedConstants packed;
    const auto tactics = gpu->tactics(region);
    const auto found = std::find_if(tactics.begin(), tactics.end(), [&](const Tactic& t) {
      return t.name == tactic && t.str().find(variant) != std::string::npos;
    });
    if (found == tactics.end()) {
      ADD_FAILURE() << "no tactic " << tactic << " " << variant;
      return {};
    }
    const auto kernel = gpu->compile(region, *found, packed);
    KernelShapes shapes;
    shapes.symbols = &symbols;
    for (const Tensor& t : inputs)
      shapes.inputs.push_back(t.defined() ? OperandShape{t.dtype(), t.dims()} : OperandShape{});
    std::vector<Tensor> results;
    size_t largest = 0;
    for (const ValueId id : region.node.outputs) {
      Dims dims;
      for (const Dim& d : graph.shape(id)) dims.push_back(d.evaluate(symbols));
      results.emplace_back(graph.type(id).dtype, dims);
      shapes.outputs.push_back({results.back().dtype(), dims});
      largest = std::max(largest, results.back().bytes());
    }
    const auto launch = kernel->prepare(shapes);

    const auto queue = gpu->make_queue();
    constexpr size_t guard = 64;
    const std::vector<std::byte> garbage(std::max(largest, launch->workspace_bytes()) + 2 * guard, std::byte{0x7f});
    std::vector<std::shared_ptr<std::byte>> memory;
    const auto room = [&](size_t bytes, DType dtype) {
      memory.push_back(queue->allocate(bytes + 2 * guard, "a test"));
      return memory.back().get() + (misaligned ? bit_width(dtype) / 8 : 0);
    };
    std::vector<const std::byte*> in;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& t = inputs[i];
      in.push_back(nullptr);
      // A plan brings to the device what a kernel says that it reads.
      if (!t.defined() || !kernel->reads_input(i)) continue;
      std::byte* at = room(t.bytes(), t.dtype());
      queue->copy_to_device(at, {t.data(), t.bytes()});
      in.back() = at;
    }
    std::vector<std::byte*> out;
    for (const Tensor& t : results) out.push_back(room(t.bytes(), t.dtype()));
    for (const auto& [i, o] : in_place) {
      EXPECT_TRUE(kernel->can_run_in_place(i, o)) << "input " << i << ", output " << o;
      in[i] = out[o];
    }
    memory.push_back(queue->allocate(launch->workspace_bytes() + guard, "a test"));
    std::byte* workspace = memory.back().get();
    queue->copy_to_device(workspace, {garbage.data(), launch->workspace_bytes() + guard});
    std::vector<std::vector<std::byte>> got, again;
    for (const Tensor& t : results) {
      got.emplace_back(t.bytes() + guard);
      again.emplace_back(t.bytes());
    }
    std::vector<std::byte> behind(guard);
    for (int round = 0; round < 2; ++round) {  // a second run finds what the first left behind
      for (size_t o = 0; o < out.size(); ++o) queue->copy_to_device(out[o], {garbage.data(), got[o].size()});
      for (const auto& [i, o] : in_place) queue->copy_to_device(out[o], {inputs[i].data(), inputs[i].bytes()});
      launch->run({in, out, workspace, pool, nullptr, queue.get()});
      for (size_t o = 0; o < out.size(); ++o) queue->copy_to_host(round == 0 ? again[o] : got[o], out[o]);
    }
    queue->copy_to_host({behind.data(), guard}, workspace + launch->workspace_bytes());
    queue->synchronize();
    EXPECT_TRUE(std::equal(behind.begin(), behind.end(), garbage.begin())) << "written behind the workspace";
    for (size_t o = 0; o < out.size(); ++o) {
      EXPECT_TRUE(std::equal(again[o].begin(), again[o].end(), got[o].begin())) << "two runs differ";
      EXPECT_TRUE(std::equal(got[o].end() - static_cast<int64_t>(guard), got[o].end(), garbage.begin()))
          << "written behind output " << o;
      if (results[o].bytes() > 0) std::memcpy(results[o].mutable_data(), got[o].data(), results[o].bytes());
    }
    return results;
  }

 private:
  Graph graph_of_node() const {
    Graph graph;
    std::vector<ValueId> ids;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& t = inputs[i];
      const std::string name = "x" + std::to_string(i);
      if (!t.defined())
        ids.push_back(no_value);
      else if (std::find(constants.begin(), constants.end(), i) != constants.end())
        ids.push_back(graph.add_constant(name, t));
      else
        ids.push_back(graph.add_input(name, {t.dtype(), Shape(t.dims().begin(), t.dims().end())}));
      if (std::find(computed.begin(), computed.end(), i) != computed.end())
        ids.back() = graph.add(ops::Pointwise{ScalarFunction::neg}, {ids.back()}, name + "_computed");
    }
    std::vector<std::string> names{"y"};
    for (size_t o = 1; o < outputs; ++o) names.push_back("y" + std::to_string(o));
    graph.add_node(op, ids, names, {}, bodies);
    return graph;
  }

  void compare(const Tensor& actual, const Tensor& expected) const {
    ASSERT_TRUE(actual.defined());
    ASSERT_EQ(actual.dtype(), expected.dtype());
    ASSERT_EQ(actual.dims(), expected.dims());
    if (!is_floating(expected.dtype()) && steps == 0) {
      ASSERT_TRUE(actual == expected);
      return;
    }
    const std::vector<double> got = actual.to_doubles(), wanted = expected.to_doubles();
    if (!is_floating(expected.dtype())) {
      for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got[i], wanted[i], steps) << "at " << i;
      return;
    }
    double scale = least_scale;
    for (const double w : wanted)
      if (std::isfinite(w)) scale = std::max(scale, std::abs(w));
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (std::isnan(wanted[i]) || std::isinf(wanted[i]) || tolerance == 0) {
        ASSERT_TRUE(std::isnan(wanted[i]) ? std::isnan(got[i]) : got[i] == wanted[i])
            << got[i] << " for " << wanted[i] << " at " << i;
      } else {
        ASSERT_NEAR(got[i], wanted[i], tolerance * scale) << "at " << i;
      }
    }
  }
};

}  // namespace camshaft::cuda

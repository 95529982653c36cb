// A whole backend, of two steps of passes and one kernel: read it to write another.
#include <gtest/gtest.h>

#include "builder/compile_graph.h"
#include "ir/ops/operators.h"
#include "ir/ops/pointwise.h"
#include "ir/text.h"
#include "optimize/canonicalize/canonicalization.h"
#include "optimize/fuse/fuse.h"
#include "optimize/pipeline.h"
#include "runtime/context.h"
#include "runtime/engine.h"

namespace camshaft::small_backend_test {
namespace {

class NegateLaunch final : public Launch {
 public:
  explicit NegateLaunch(int64_t count) : count_(count) {}
  void run(const LaunchArguments& arguments) override {
    const auto* x = reinterpret_cast<const float*>(arguments.inputs[0]);
    auto* y = reinterpret_cast<float*>(arguments.outputs[0]);
    for (int64_t i = 0; i < count_; ++i) y[i] = -x[i];
  }

 private:
  int64_t count_;
};

class NegateKernel final : public Kernel {
 public:
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<NegateLaunch>(element_count(shapes.inputs[0].dims));
  }
};

class SmallBackend final : public Backend {
 public:
  const DeviceInfo& device() const override { return info_; }
  BackendPasses passes(DType /*storage*/, ops::Rounding /*rounding*/) const override {
    return {.form = {canonicalization(), fuse_pass}};
  }
  std::vector<Tactic> tactics(const RegionView& region) const override {
    std::vector<Tactic> list{{"reference", 1}};
    const auto* op = region.node.op.as<ops::Pointwise>();
    if (op && op->function == ScalarFunction::neg && region.graph.type(region.node.inputs[0]).dtype == DType::f32)
      list.insert(list.begin(), {"negate", 0.1});
    return list;
  }
  std::shared_ptr<const Kernel> compile(const RegionView& region, const Tactic& tactic,
                                        PackedConstants& /*constants*/) const override {
    if (tactic.name == "negate") return std::make_shared<NegateKernel>();
    return make_reference_kernel(region);
  }
  bool can_unpack(const std::string& /*layout*/) const override { return false; }
  Tensor unpack(const PackedConstant& /*packed*/, DType, const Dims&) const override { return {}; }

 private:
  DeviceInfo info_{"small", "a small device", "none", 1, 0, {}, {}, "1"};
};

TEST(SmallBackend, RunsAModel) {
  Graph graph = parse_graph(R"(graph "g" (%x: f32[2, 2]) {
      const %w: f32[2, 2] = [1, 2, 3, 4]
      const %one: f32[] = 1
      %a = pointwise {function=mul} (%x, %one)
      %n = pointwise {function=neg} (%a)
      %y = matmul (%n, %w)
      return "y" = %y
    })",
                            operators());
  const auto backend = std::make_shared<const SmallBackend>();
  const BackendPasses passes = backend->passes(DType::f32, ops::Rounding::none);
  check_order(passes);
  ThreadPool pool(1);
  run_passes(graph, passes.form, PassContext{.pool = pool});
  const Engine engine = compile_graph(std::move(graph), backend);
  ASSERT_EQ(engine.layers().size(), 2U);  // x · 1 is gone
  EXPECT_EQ(engine.layers()[0].tactic, "negate");
  EXPECT_EQ(engine.layers()[1].tactic, "reference");

  Context context = engine.create_context();
  const float x[] = {1, 0, 0, 1};
  context.set_input("x", {2, 2}, x);
  context.run();
  const auto* y = static_cast<const float*>(context.output("y").data);
  EXPECT_EQ(std::vector<float>(y, y + 4), (std::vector<float>{-1, -2, -3, -4}));
}

}  // namespace
}  // namespace camshaft::small_backend_test

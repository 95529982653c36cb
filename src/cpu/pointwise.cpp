#include "cpu/pointwise.h"

#include <algorithm>

#include "compile/scalar_lowering.h"
#include "cpu/kernels/pointwise.h"
#include "cpu/shape_check.h"
#include "ops/pointwise.h"
#include "ops/region.h"

namespace camshaft::cpu {

namespace {

struct PointwiseView {
  ScalarProgram program;
  std::vector<int32_t> loads;  // region inputs
};

std::optional<PointwiseView> view_pointwise(const RegionView& region) {
  const Node& node = region.node;
  PointwiseView view;
  std::optional<LoweredProgram> lowered;
  Graph single;
  const Graph* body = &single;
  if (node.op.as<ops::Region>() && node.bodies.size() == 1) {
    body = &node.bodies[0];
  } else if (node.op.as<ops::Pointwise>() || node.op.as<ops::Cast>()) {
    for (const ValueId id : node.inputs) single.add_input("i", region.graph.type(id));
    const ValueId out = single.add(node.op, single.inputs, "o");
    single.add_output("o", out);
  } else {
    return std::nullopt;
  }
  lowered = lower_scalar_program(*body, 0);
  if (!lowered || lowered->program.outputs.empty()) return std::nullopt;
  for (const ValueId id : lowered->loads) {
    const auto it = std::find(body->inputs.begin(), body->inputs.end(), id);
    if (it == body->inputs.end()) return std::nullopt;
    view.loads.push_back(static_cast<int32_t>(it - body->inputs.begin()));
  }
  // All outputs share one iteration space.
  for (const ValueId id : node.outputs)
    if (region.graph.shape(id) != region.graph.shape(node.outputs[0])) return std::nullopt;
  for (const ValueId id : node.outputs)
    if (holds_objects(region.graph.type(id).dtype)) return std::nullopt;
  view.program = std::move(lowered->program);
  try {
    TileProgram(view.program, std::vector<RowForm>(static_cast<size_t>(view.program.inputs), RowForm::vector));
  } catch (const Error&) {
    return std::nullopt;  // a type or function without vector loops
  }
  return view;
}

class PointwiseLaunch final : public Launch {
 public:
  PointwiseLaunch(const PointwiseView& view, const KernelShapes& shapes)
      : loads_(view.loads),
        inputs_(view.loads.size()),
        outputs_(shapes.outputs.size()),
        kernel_(view.program, shapes.outputs[0].dims, strides(view, shapes), output_strides(shapes)) {}

  void run(const LaunchArguments& arguments) override {
    for (size_t k = 0; k < loads_.size(); ++k) inputs_[k] = arguments.inputs[static_cast<size_t>(loads_[k])];
    for (size_t o = 0; o < outputs_.size(); ++o) outputs_[o] = arguments.outputs[o];
    kernel_.run(arguments.pool, inputs_.data(), outputs_.data());
  }

 private:
  static std::vector<std::vector<int64_t>> strides(const PointwiseView& view, const KernelShapes& shapes) {
    const Dims& out = shapes.outputs[0].dims;
    std::vector<std::vector<int64_t>> all;
    for (const int32_t load : view.loads) {
      const Dims& dims = shapes.inputs[static_cast<size_t>(load)].dims;
      require_broadcast(dims, out);
      std::vector<int64_t> s(out.size(), 0);
      int64_t stride = 1;
      for (size_t i = 0; i < dims.size(); ++i) {
        const size_t d = dims.size() - 1 - i;
        s[out.size() - 1 - i] = dims[d] == 1 ? 0 : stride;
        stride = i == 0 ? shapes.inputs[static_cast<size_t>(load)].pitch() : stride * dims[d];
      }
      all.push_back(std::move(s));
    }
    return all;
  }

  static std::vector<std::vector<int64_t>> output_strides(const KernelShapes& shapes) {
    std::vector<std::vector<int64_t>> all;
    for (const OperandShape& out : shapes.outputs) {
      std::vector<int64_t> s(out.dims.size());
      int64_t stride = 1;
      for (size_t d = out.dims.size(); d-- > 0;) {
        s[d] = stride;
        stride = d + 1 == out.dims.size() ? out.pitch() : stride * out.dims[d];
      }
      all.push_back(std::move(s));
    }
    return all;
  }

  const std::vector<int32_t>& loads_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  Pointwise kernel_;
};

class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(PointwiseView view, size_t outputs) : view_(std::move(view)), outputs_(outputs) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<PointwiseLaunch>(view_, shapes);
  }
  bool reads_slices(size_t) const override { return true; }
  bool writes_slices(size_t) const override { return true; }
  // With several outputs, one of them would overwrite an input that another still needs.
  bool can_run_in_place(size_t, size_t) const override { return outputs_ == 1; }

 private:
  PointwiseView view_;
  size_t outputs_;
};

std::optional<double> estimate_pointwise(const RegionView& region) {
  const auto view = view_pointwise(region);
  if (!view) return std::nullopt;
  const double elements = elements_at_optimum(region, region.node.outputs[0]);
  const double work = static_cast<double>(view->program.instructions.size()) * elements * 1e-10;
  return seconds_per_launch + std::max(work, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_pointwise(const RegionView& region, PackedConstants&) {
  return std::make_shared<PointwiseKernel>(*view_pointwise(region), region.node.outputs.size());
}

}  // namespace

const CpuTactic pointwise_tactic{"pointwise", estimate_pointwise, compile_pointwise};

}  // namespace camshaft::cpu

#include "backends/cpu/tactics/pointwise.h"

#include <algorithm>

#include "backends/cpu/kernels/pointwise/pointwise.h"
#include "compile/region/pointwise_view.h"

namespace camshaft::cpu {

namespace {

// Those with vector loops for all types and functions.
std::optional<PointwiseView> view_tiles(const RegionView& region) {
  auto view = view_pointwise(region);
  return view && has_loops(view->program) ? std::move(view) : std::nullopt;
}

class PointwiseLaunch final : public Launch {
 public:
  PointwiseLaunch(const PointwiseView& view, const KernelShapes& shapes)
      : PointwiseLaunch(view, shapes, pointwise_strides(view, shapes)) {}

  void run(const LaunchArguments& arguments) override {
    for (size_t k = 0; k < loads_.size(); ++k) inputs_[k] = arguments.inputs[static_cast<size_t>(loads_[k])];
    for (size_t o = 0; o < outputs_.size(); ++o) outputs_[o] = arguments.outputs[o];
    kernel_.run(arguments.pool, inputs_.data(), outputs_.data());
  }

 private:
  PointwiseLaunch(const PointwiseView& view, const KernelShapes& shapes, const PointwiseStrides& strides)
      : loads_(view.loads),
        inputs_(view.loads.size()),
        outputs_(shapes.outputs.size()),
        kernel_(view.program, shapes.outputs[0].dims, strides.loads, strides.outputs) {}

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
  const auto view = view_tiles(region);
  if (!view) return std::nullopt;
  const double elements = elements_at_optimum(region, region.node.outputs[0]);
  const double work = static_cast<double>(view->program.instructions.size()) * elements * 1e-10;
  return seconds_per_launch + std::max(work, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_pointwise(const RegionView& region, PackedConstants&) {
  return std::make_shared<PointwiseKernel>(*view_tiles(region), region.node.outputs.size());
}

}  // namespace

bool has_loops(const ScalarProgram& program) {
  try {
    TileProgram(program, std::vector<RowForm>(static_cast<size_t>(program.inputs), RowForm::vector));
  } catch (const Error&) {
    return false;
  }
  return true;
}

const CpuTactic pointwise_tactic{"pointwise", estimate_pointwise, compile_pointwise};

}  // namespace camshaft::cpu

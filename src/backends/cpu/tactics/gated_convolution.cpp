#include "backends/cpu/tactics/gated_convolution.h"

#include <optional>

#include "backends/cpu/tactics/conv_view.h"
#include "backends/cpu/tactics/conv_weights.h"
#include "backends/cpu/tactics/convolution.h"
#include "backends/cpu/tactics/part_inputs.h"
#include "compile/chain.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/pointwise.h"
#include "ir/region.h"

namespace camshaft::cpu {

namespace {

struct GatedView {
  std::shared_ptr<const Graph> body;  // the convolution's view points into it
  ConvView conv;
  PartInputs inputs;  // of the convolution, its image without gates
  int32_t gates;      // the region's input
};

bool is_gate_of(const Shape& gates, const Shape& image) {
  return gates.size() == 4 && image.size() == 4 && gates[0] == image[0] && gates[1] == Dim(1) && gates[2] == Dim(1) &&
         gates[3] == image[3];
}

std::optional<GatedView> view_gated(const RegionView& region) {
  if (!is_chain(region.node)) return std::nullopt;
  auto body = std::make_shared<const Graph>(open_chain(region));
  if (body->nodes.size() != 2 || body->outputs.size() != 1 || body->outputs[0] != body->nodes[1].outputs[0])
    return std::nullopt;
  const Node &product = body->nodes[0], &node = body->nodes[1];
  const auto* op = product.op.as<ops::Pointwise>();
  if (!op || op->function != ScalarFunction::mul || product.inputs.size() != 2) return std::nullopt;
  std::optional<ConvView> conv = view_conv({*body, node, region.symbols});
  if (!conv || !conv->is_pointwise() || !conv->spatial.constant_weights) return std::nullopt;
  const bool second = is_gate_of(body->shape(product.inputs[1]), body->shape(product.inputs[0]));
  if (!second && !is_gate_of(body->shape(product.inputs[0]), body->shape(product.inputs[1]))) return std::nullopt;
  const ValueId image = product.inputs[second ? 0 : 1], gates = product.inputs[second ? 1 : 0];
  for (const ValueId id : {image, gates})
    if (body->type(id).dtype != DType::f32) return std::nullopt;
  const int32_t of_gates = input_index(*body, gates);
  auto inputs = PartInputs::of_part(*body, node, conv->spatial, product.outputs[0], image);
  if (!inputs || of_gates < 0) return std::nullopt;
  return GatedView{body, std::move(*conv), std::move(*inputs), of_gates};
}

// The region's operands as those of the convolution.
KernelShapes shapes_of_conv(const GatedView& view, const KernelShapes& shapes) {
  KernelShapes own = view.inputs.shapes(shapes);
  own.outputs = shapes.outputs;
  return own;
}

class GatedLaunch final : public Launch {
 public:
  GatedLaunch(const GatedView& view, const float* packed, const KernelShapes& shapes)
      : view_(view),
        packed_(packed),
        threads_(shapes.threads),
        own_(shapes_of_conv(view, shapes)),
        layout_(conv_weights_of(view.conv).layout),
        epilogue_(view.conv.spatial.epilogue, own_, shapes.outputs[0].dims.back()),
        pointers_(view.inputs.size()) {
    const Dims& gates = shapes.inputs[static_cast<size_t>(view.gates)].dims;
    ConvShape s = conv_shape(view.conv, own_);
    require_equal(element_count(gates), s.batch * s.in_channels, "the number of gates");
    // A program in the epilogue asks where in the whole result it is.
    gates_weights_ = s.in_h * s.in_w > s.out_channels && (s.batch == 1 || !epilogue_.has_program());
    images_ = s.batch;
    if (gates_weights_) s.batch = 1;
    plan_.emplace(s);
  }
  size_t workspace_bytes() const override {
    return weight_bytes() + static_cast<size_t>(plan_->workspace_bytes(threads_, !gates_weights_));
  }
  void run(const LaunchArguments& arguments) override {
    auto* y = reinterpret_cast<float*>(arguments.outputs[0]);
    view_.inputs.bind(arguments.inputs, pointers_);
    const Epilogue epilogue =
        epilogue_.bind({pointers_, arguments.outputs, nullptr, arguments.pool, arguments.cancellation}, y);
    const auto* x = reinterpret_cast<const float*>(pointers_[static_cast<size_t>(view_.conv.spatial.x)]);
    const auto* gates = reinterpret_cast<const float*>(arguments.inputs[static_cast<size_t>(view_.gates)]);
    if (!gates_weights_)
      return conv(*plan_, x, packed_, y, epilogue, arguments.pool, arguments.workspace + weight_bytes(), gates);
    auto* gated = reinterpret_cast<float*>(arguments.workspace);
    for (int64_t image = 0; image < images_; ++image) {
      scale_packed_rows(layout_, packed_, gates + image * plan_->shape().in_channels, gated, arguments.pool);
      run_image(image, x, gated, y, epilogue, arguments);
    }
  }

 private:
  size_t weight_bytes() const {
    const auto bytes = static_cast<size_t>(layout_.floats()) * sizeof(float);
    return gates_weights_ ? (bytes + 63) / 64 * 64 : 0;
  }

  void run_image(int64_t image, const float* x, const float* weights, float* y, Epilogue epilogue,
                 const LaunchArguments& arguments) const {
    const ConvShape& s = plan_->shape();
    const int64_t pixel = image * s.in_h * s.in_w;
    if (epilogue.residual) epilogue.residual += pixel * epilogue.residual_ld;
    for (Residual& more : epilogue.more_residuals)
      if (more.data) more.data += pixel * more.ld;
    if (epilogue.addend) epilogue.addend += pixel * epilogue.addend_ld;
    conv(*plan_, x + pixel * (s.in_pixel_stride ? s.in_pixel_stride : s.in_channels), weights,
         y + pixel * (s.out_pixel_stride ? s.out_pixel_stride : s.out_channels), epilogue, arguments.pool,
         arguments.workspace + weight_bytes());
  }

  const GatedView& view_;
  const float* packed_;
  int threads_;
  KernelShapes own_;
  // The weights are gated instead of the image where they are fewer, for each image anew (EfficientNet-B0 at batch 8:
  // 144 -> 24 channels at 56x56 took 1.94 ms with a copy of the images).
  bool gates_weights_ = false;
  int64_t images_ = 0;
  std::optional<ConvPlan> plan_;  // of one image where weights are gated
  PackedLayout layout_;
  BoundEpilogue epilogue_;
  std::vector<const std::byte*> pointers_;
};

class GatedKernel final : public Kernel {
 public:
  GatedKernel(GatedView view, const float* packed) : view_(std::move(view)), packed_(packed) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<GatedLaunch>(view_, packed_, shapes);
  }
  // Rows of the image are read again for other columns of the result.
  bool can_run_in_place(size_t i, size_t) const override {
    return !is(view_.gates, i) && view_.inputs.all_uses(i, [&](size_t own) { return epilogue().can_overwrite(own); });
  }
  bool reads_slices(size_t i) const override {
    return !is(view_.gates, i) && view_.inputs.all_uses(i, [&](size_t own) { return epilogue().reads_slices(own); });
  }
  bool writes_slices(size_t) const override { return true; }
  bool reads_input(size_t i) const override {
    return is(view_.gates, i) || !view_.inputs.all_uses(i, [&](size_t own) {
      return static_cast<int32_t>(own) == view_.conv.spatial.weights && !epilogue().reads(own);
    });
  }

 private:
  static bool is(int32_t input, size_t i) { return static_cast<int32_t>(i) == input; }
  const ContractEpilogue& epilogue() const { return view_.conv.spatial.epilogue; }

  GatedView view_;
  const float* packed_;
};

// The copy that multiplies is read from L2 as the image would have been.
std::optional<double> estimate_gated_convolution(const RegionView& region) {
  const std::optional<GatedView> view = view_gated(region);
  if (!view) return std::nullopt;
  constexpr double copying = 1.03;
  return copying * conv_tactic.offers({*view->body, view->body->nodes[1], region.symbols}).at(0).seconds;
}

std::shared_ptr<const Kernel> compile_gated_convolution(const RegionView& region, PackedConstants& constants) {
  GatedView view = *view_gated(region);
  const float* packed = pack_conv({*view.body, view.body->nodes[1], region.symbols}, view.conv, constants);
  return std::make_shared<GatedKernel>(std::move(view), packed);
}

}  // namespace

const CpuTactic gated_conv_tactic{"gated", estimate_gated_convolution, compile_gated_convolution};

}  // namespace camshaft::cpu

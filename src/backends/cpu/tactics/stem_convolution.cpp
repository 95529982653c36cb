#include "backends/cpu/tactics/stem_convolution.h"

#include <algorithm>

#include "backends/cpu/kernels/conv/stem_conv.h"
#include "backends/cpu/tactics/conv_view.h"
#include "backends/cpu/tactics/conv_weights.h"
#include "backends/cpu/tactics/convolution.h"
#include "backends/cpu/tactics/part_inputs.h"
#include "backends/cpu/tactics/pool.h"
#include "compile/chain.h"
#include "ir/ops/move.h"

namespace camshaft::cpu {

namespace {

struct StemConvView {
  std::shared_ptr<const Graph> body;  // of a chain: the views point into it
  ConvView conv;
  const Node* node = nullptr;  // the convolution
  PartInputs inputs;
  bool channels_first = false;  // the image, in the region
  const Node* pool = nullptr;   // behind it, or null
};

// With more the general convolution has enough to do for each pointer.
constexpr int64_t most_channels = 4;
// Steps of the sum: the weights of a panel are read for every row of the result, and should stay in L2.
constexpr int64_t most_steps = 512;
// As the kernel's.
constexpr int64_t most_stride = 64;

bool is_read_unpacked(const ConvView& view) {
  const Dims& w = view.spatial.weight_dims;
  const int64_t taps = view.spatial.kernel_h() * view.spatial.kernel_w();
  return view.op.groups == 1 && w.size() <= 4 && view.spatial.constant_weights && w[1] <= most_channels && taps > 1 &&
         taps * w[1] <= most_steps && view.op.strides.back() <= most_stride;
}

std::optional<StemConvView> view_plain_stem(const RegionView& region) {
  std::optional<ConvView> conv = view_conv(region);
  if (!conv || !is_read_unpacked(*conv)) return std::nullopt;
  std::vector<int32_t> inputs;
  for (size_t i = 0; i < region.node.inputs.size(); ++i)
    inputs.push_back(region.node.inputs[i] == no_value ? PartInputs::omitted : static_cast<int32_t>(i));
  return StemConvView{nullptr, std::move(*conv), &region.node, PartInputs(std::move(inputs)), false, nullptr};
}

// [transpose,] convolution [, maximum of windows]
std::optional<StemConvView> view_stem_chain(const RegionView& region) {
  auto body = std::make_shared<const Graph>(open_chain(region));
  const std::vector<Node>& nodes = body->nodes;
  const auto* transpose = nodes.empty() ? nullptr : nodes[0].op.as<ops::Transpose>();
  const size_t at = transpose ? 1 : 0;
  if (nodes.size() < at + 1 || nodes.size() > at + 2 || body->outputs != nodes.back().outputs) return std::nullopt;
  if (transpose && transpose->permutation != std::vector<int64_t>{0, 2, 3, 1}) return std::nullopt;
  const Node& node = nodes[at];
  std::optional<ConvView> conv = view_conv({*body, node, region.symbols});
  if (!conv || !is_read_unpacked(*conv)) return std::nullopt;
  auto inputs = transpose ? PartInputs::of_part(*body, node, conv->spatial, nodes[0].outputs[0], nodes[0].inputs[0])
                          : PartInputs::of_part(*body, node, conv->spatial);
  if (!inputs) return std::nullopt;
  const Node* pool = nodes.size() > at + 1 ? &nodes[at + 1] : nullptr;
  if (pool) {
    const auto* op = pool->op.as<ops::Pool>();
    const bool fits = op && op->kind == ops::PoolKind::max && op->channels_last && op->kernel.size() == 2 &&
                      conv->spatial.weight_dims.size() == 4 && pool->inputs[0] == node.outputs[0];
    if (!fits || !conv->spatial.epilogue.is_plain()) return std::nullopt;
  }
  return StemConvView{body, std::move(*conv), &node, std::move(*inputs), transpose != nullptr, pool};
}

std::optional<StemConvView> view_stem_conv(const RegionView& region) {
  return is_chain(region.node) ? view_stem_chain(region) : view_plain_stem(region);
}

class StemConvLaunch final : public Launch {
 public:
  StemConvLaunch(const StemConvView& view, const float* packed, const KernelShapes& shapes)
      : view_(view), packed_(packed), threads_(shapes.threads), pointers_(view.inputs.size()) {
    KernelShapes own = view.inputs.shapes(shapes);
    own.outputs = shapes.outputs;
    if (view.channels_first) {
      Dims& x = own.inputs[static_cast<size_t>(view.conv.spatial.x)].dims;
      std::rotate(x.begin() + 1, x.begin() + 2, x.end());
    }
    const ConvShape shape = conv_shape(view.conv, own);
    if (view.pool) {
      KernelShapes behind{{{DType::f32, {shape.batch, shape.out_h(), shape.out_w(), shape.out_channels}}},
                          shapes.outputs,
                          shapes.symbols,
                          shapes.threads};
      element_count(behind.inputs[0].dims);  // throws for more than any tensor has
      plan_ = StemConvPlan(shape, view.channels_first, spatial_pool(*view.pool->op.as<ops::Pool>(), behind));
      own.outputs = behind.inputs;
    } else {
      plan_ = StemConvPlan(shape, view.channels_first);
    }
    epilogue_.emplace(view.conv.spatial.epilogue, own, shape.out_channels);
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(plan_.workspace_bytes(threads_)); }

  void run(const LaunchArguments& arguments) override {
    auto* y = reinterpret_cast<float*>(arguments.outputs[0]);
    view_.inputs.bind(arguments.inputs, pointers_);
    const Epilogue epilogue =
        epilogue_->bind({pointers_, arguments.outputs, nullptr, arguments.pool, arguments.cancellation}, y);
    stem_conv(plan_, reinterpret_cast<const float*>(pointers_[static_cast<size_t>(view_.conv.spatial.x)]), packed_, y,
              epilogue, arguments.pool, arguments.workspace);
  }

 private:
  const StemConvView& view_;
  const float* packed_;
  int threads_;
  std::vector<const std::byte*> pointers_;  // the convolution's inputs
  StemConvPlan plan_;
  std::optional<BoundEpilogue> epilogue_;
};

class StemConvKernel final : public Kernel {
 public:
  StemConvKernel(StemConvView view, const float* packed) : view_(std::move(view)), packed_(packed) {}

  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<StemConvLaunch>(view_, packed_, shapes);
  }
  bool can_run_in_place(size_t i, size_t) const override {
    return view_.inputs.all_uses(
        i, [&](size_t own) { return view_.conv.spatial.epilogue.can_overwrite(own); });  // not with a pool
  }
  bool reads_slices(size_t i) const override {
    return view_.inputs.all_uses(i, [&](size_t own) {
      return !is_weights(own) && !(view_.channels_first && is_image(own)) &&
             view_.conv.spatial.epilogue.reads_slices(own);
    });
  }
  bool writes_slices(size_t) const override { return true; }
  bool reads_input(size_t i) const override {
    return !view_.inputs.all_uses(i, [&](size_t own) { return is_weights(own); });
  }

 private:
  bool is_weights(size_t own) const { return static_cast<int32_t>(own) == view_.conv.spatial.weights; }
  bool is_image(size_t own) const { return static_cast<int32_t>(own) == view_.conv.spatial.x; }

  StemConvView view_;
  const float* packed_;
};

// 0.57 to 0.93 of the general convolution's time on a Zen 5 core, for the first layers of MobileNets (3x3) and of
// ResNets (7x7); and no transpose.
std::optional<double> estimate_stem_convolution(const RegionView& region) {
  const std::optional<StemConvView> view = view_stem_conv(region);
  if (!view) return std::nullopt;
  const RegionView part{view->body ? *view->body : region.graph, *view->node, region.symbols, region.threads};
  const double seconds = 0.8 * conv_tactic.offers(part).at(0).seconds;
  if (!view->pool) return seconds;
  // What is pooled is still in cache.
  return seconds + 0.5 * pool_tactic.offers({*view->body, *view->pool, region.symbols}).at(0).seconds;
}

std::shared_ptr<const Kernel> compile_stem_convolution(const RegionView& region, PackedConstants& constants) {
  StemConvView view = *view_stem_conv(region);
  const RegionView part{view.body ? *view.body : region.graph, *view.node, region.symbols, region.threads};
  const float* packed = pack_conv(part, view.conv, constants);
  return std::make_shared<StemConvKernel>(std::move(view), packed);
}

}  // namespace

const CpuTactic stem_conv_tactic{"stem_conv", estimate_stem_convolution, compile_stem_convolution};

}  // namespace camshaft::cpu

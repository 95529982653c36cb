#include "backends/cpu/tactics/conv_chain.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "backends/cpu/kernels/conv/conv_chain.h"
#include "backends/cpu/machine_limits.h"
#include "backends/cpu/tactics/conv_view.h"
#include "backends/cpu/tactics/conv_weights.h"
#include "backends/cpu/tactics/convolution.h"
#include "backends/cpu/tactics/part_inputs.h"
#include "compile/chain.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cpu {

namespace {

/// A chain region taken apart. The views' indices are of the parts' own inputs.
struct ChainView {
  std::shared_ptr<const Graph> body;  // the views point into it
  std::vector<ConvView> parts;
  std::vector<PartInputs> inputs;  // of each part; from inside: what the part before gives
  size_t depthwise = 0;            // which part

  bool expands() const { return depthwise > 0; }
  bool projects() const { return depthwise + 1 < parts.size(); }
  const Node& node(size_t part) const { return body->nodes[part]; }
};

std::optional<ChainView> view_chain(const RegionView& region) {
  if (!is_chain(region.node)) return std::nullopt;
  ChainView chain;
  chain.body = std::make_shared<const Graph>(open_chain(region));
  const Graph& body = *chain.body;
  if (body.nodes.size() < 2 || body.nodes.size() > 3 || body.outputs.size() != 1) return std::nullopt;
  ValueId result = no_value;
  int depthwise_parts = 0;
  for (size_t p = 0; p < body.nodes.size(); ++p) {
    const Node& node = body.nodes[p];
    std::optional<ConvView> view = view_conv({body, node, region.symbols});
    if (!view || node.outputs.size() != 1 || view->spatial.weight_dims.size() != 4 || !view->spatial.constant_weights)
      return std::nullopt;
    if (body.shape(node.inputs[static_cast<size_t>(view->spatial.x)]).size() != 4) return std::nullopt;
    std::optional<PartInputs> inputs = PartInputs::of_part(body, node, view->spatial, result);
    if (!inputs || (p + 1 < body.nodes.size() && !view->spatial.epilogue.is_plain())) return std::nullopt;
    if (view->is_depthwise()) {
      if (++depthwise_parts > 1) return std::nullopt;
      chain.depthwise = p;
    } else if (!view->is_pointwise()) {
      return std::nullopt;
    }
    result = node.outputs[0];
    chain.parts.push_back(std::move(*view));
    chain.inputs.push_back(std::move(*inputs));
  }
  const bool placed = depthwise_parts == 1 && chain.depthwise <= 1 && chain.depthwise + 2 >= chain.parts.size();
  if (!placed || body.outputs[0] != result) return std::nullopt;
  return chain;
}

class ChainLaunch final : public Launch {
 public:
  ChainLaunch(const ChainView& view, const std::vector<const float*>& packed, const KernelShapes& shapes)
      : view_(view), packed_(packed), threads_(shapes.threads), pointers_(view.parts.size()) {
    ConvChain chain;
    OperandShape between;
    for (size_t p = 0; p < view.parts.size(); ++p) {
      KernelShapes own = view.inputs[p].shapes(shapes, between);
      const bool last = p + 1 == view.parts.size();
      own.outputs.push_back(last ? shapes.outputs[0] : OperandShape{});
      ConvShape shape = conv_shape(view.parts[p], own);
      between = {DType::f32, {shape.batch, shape.out_h(), shape.out_w(), shape.out_channels}};
      const int64_t elements = element_count(between.dims);  // throws for more than any tensor has
      if (last) require_equal(elements, element_count(shapes.outputs[0].dims), "the number of a chain's results");
      if (!last) own.outputs[0] = between;
      epilogues_.emplace_back(view.parts[p].spatial.epilogue, own, shape.out_channels);
      pointers_[p].resize(own.inputs.size());
      if (p == 0) chain.x_pixel_stride = shape.in_pixel_stride;
      if (last) chain.y_pixel_stride = shape.out_pixel_stride;
      if (p < view.depthwise) chain.x_channels = shape.in_channels;
      if (p > view.depthwise) chain.y_channels = shape.out_channels;
      if (p != view.depthwise) continue;
      shape.in_pixel_stride = shape.out_pixel_stride = 0;
      chain.depthwise = shape;
    }
    require_equal(chain.depthwise.in_channels, chain.depthwise.groups,
                  "the number of groups of a depthwise convolution");
    // Bands of 120 to 480 pixels take the same time within 1 %; the wide tensors should leave room in L2.
    constexpr int64_t most_pixels = 240, floats = int64_t{1} << 17;
    const int64_t widest = std::max({chain.depthwise.in_channels, chain.depthwise.out_channels, int64_t{1}});
    const ConvShape& d = chain.depthwise;
    const int64_t rows = (d.batch * d.out_h() + threads_ - 1) / threads_;  // of a thread
    plan_.emplace(chain,
                  std::clamp<int64_t>(floats / widest, 1, std::clamp<int64_t>(rows * d.out_w(), 1, most_pixels)));
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(plan_->workspace_bytes(threads_)); }

  void run(const LaunchArguments& arguments) override {
    ConvChainOperands o;
    o.y = reinterpret_cast<float*>(arguments.outputs[0]);
    for (size_t p = 0; p < view_.parts.size(); ++p) {
      view_.inputs[p].bind(arguments.inputs, pointers_[p]);
      const Epilogue epilogue =
          epilogues_[p].bind({pointers_[p], arguments.outputs, nullptr, arguments.pool, arguments.cancellation}, o.y);
      const bool expands = p < view_.depthwise;
      const bool projects = p > view_.depthwise;
      (expands ? o.expand : projects ? o.project : o.depthwise) = packed_[p];
      (expands ? o.expand_epilogue : projects ? o.project_epilogue : o.depthwise_epilogue) = epilogue;
    }
    o.x = reinterpret_cast<const float*>(pointers_[0][static_cast<size_t>(view_.parts[0].spatial.x)]);
    conv_chain(*plan_, o, arguments.pool, arguments.workspace);
  }

 private:
  const ChainView& view_;
  const std::vector<const float*>& packed_;
  int threads_;
  std::deque<BoundEpilogue> epilogues_;  // of each part; they do not move
  std::vector<std::vector<const std::byte*>> pointers_;
  std::optional<ConvChainPlan> plan_;
};

class ChainKernel final : public Kernel {
 public:
  ChainKernel(ChainView view, std::vector<const float*> packed) : view_(std::move(view)), packed_(std::move(packed)) {}

  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<ChainLaunch>(view_, packed_, shapes);
  }
  // Lines of x are read again after results were written.
  bool can_run_in_place(size_t i, size_t) const override {
    return all_uses(i, [&](size_t p, size_t own) {
      return p + 1 == view_.parts.size() && view_.parts[p].spatial.epilogue.can_overwrite(own);
    });
  }
  bool reads_slices(size_t i) const override {
    return all_uses(i, [&](size_t p, size_t own) { return view_.parts[p].spatial.epilogue.reads_slices(own); });
  }
  bool writes_slices(size_t) const override { return true; }
  bool reads_input(size_t i) const override {
    return !all_uses(i, [&](size_t p, size_t own) {
      const auto& part = view_.parts[p].spatial;
      return static_cast<int32_t>(own) == part.weights && !part.epilogue.reads(own);
    });
  }

 private:
  // Whether something holds wherever a part has the region's input i.
  template <class Predicate>
  bool all_uses(size_t i, Predicate&& holds) const {
    for (size_t p = 0; p < view_.parts.size(); ++p)
      if (!view_.inputs[p].all_uses(i, [&](size_t own) { return holds(p, own); })) return false;
    return true;
  }

  ChainView view_;
  std::vector<const float*> packed_;
};

// The part of the expansion that is computed twice, because two threads need it, when `threads` share all rows.
double repeated_share(double batch, double in_h, double out_h, double overlap, int threads) {
  if (batch * in_h < 1 || out_h < 1) return 0;
  double lines = 0;
  for (int t = 1; t < threads; ++t) {
    const double row = std::floor(batch * out_h * t / threads);
    if (std::fmod(row, out_h) != 0) lines += std::min(overlap, in_h);
  }
  return lines / (batch * in_h);
}

// As against the parts one by one: what lies between needs no memory, some lines are expanded twice, and the products
// are cut smaller.
std::optional<double> estimate_conv_chain(const RegionView& region) {
  const std::optional<ChainView> chain = view_chain(region);
  if (!chain) return std::nullopt;
  static const auto cache = static_cast<double>(l2_cache_bytes());
  // Read back by the next part from L3 or memory: 8 to 40 ps a byte on a Zen 5 core, which this takes to be twice as
  // slow as it is. From L2 it costs nothing next to the arithmetic.
  constexpr double seconds_per_byte_between = 2 * seconds_per_byte / 5;
  double seconds = 0, saved = 0;
  for (size_t p = 0; p < chain->parts.size(); ++p) {
    const RegionView part{*chain->body, chain->node(p), region.symbols, region.threads};
    const CpuTactic& alone = p == chain->depthwise ? depthwise_tactic : conv_tactic;
    const double own = alone.offers(part).at(0).seconds;
    seconds += own;
    if (p < chain->depthwise) {
      const ConvView& view = chain->parts[chain->depthwise];
      const auto size = [&](size_t part_index, size_t axis) {
        return size_at_optimum(region, chain->body->shape(chain->node(part_index).outputs[0])[axis]);
      };
      const auto overlap =
          static_cast<double>((view.spatial.kernel_h() - 1) * view.op.dilations[0] + 1 - view.op.strides[0]);
      seconds += own * repeated_share(size(p, 0), size(p, 1), size(chain->depthwise, 1), std::max(overlap, 0.0),
                                      region.threads);
    }
    if (p + 1 == chain->parts.size()) break;
    const double bytes = 4 * elements_at_optimum(part, part.node.outputs[0]);
    if (bytes > cache) saved += bytes * seconds_per_byte_between;
  }
  constexpr double cutting = 1.01;
  return std::max(seconds * cutting - saved, seconds / 3);
}

std::shared_ptr<const Kernel> compile_conv_chain(const RegionView& region, PackedConstants& constants) {
  ChainView chain = *view_chain(region);
  std::vector<const float*> packed;
  for (size_t p = 0; p < chain.parts.size(); ++p) {
    const RegionView part{*chain.body, chain.node(p), region.symbols, region.threads};
    packed.push_back(p == chain.depthwise ? pack_depthwise(part, chain.parts[p], constants)
                                          : pack_conv(part, chain.parts[p], constants));
  }
  return std::make_shared<ChainKernel>(std::move(chain), std::move(packed));
}

}  // namespace

const CpuTactic conv_chain_tactic{"bands", estimate_conv_chain, compile_conv_chain};

}  // namespace camshaft::cpu

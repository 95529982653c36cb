// Images whose channels are filled up with zeros (see passes/widen_images.h), on a GPU.
#include <algorithm>

#include "backends/cuda/codegen/pointwise_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/space.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"
#include "compile/region/pointwise_view.h"
#include "ir/ops/broadcast.h"

namespace camshaft::cuda {

namespace {

constexpr int64_t piece = 8;  // elements that a thread stores

struct Filling {
  PointwiseView view;
  int64_t channels = 0;

  // The axis of the operand that is the result's axis d.
  size_t axis(size_t d) const {
    const std::vector<int64_t>& permutation = view.permutations[0];
    return permutation.empty() ? d : static_cast<size_t>(permutation[d]);
  }
};

std::optional<Filling> view_filling(const RegionView& region) {
  auto view = view_pointwise(region, true);
  if (!view || view->filled == 0 || piece % view->filled != 0 || view->loads.size() != 1 ||
      view->program.outputs.size() != 1)
    return std::nullopt;
  Filling made{.view = std::move(*view)};
  const TensorType& out = region.graph.type(region.node.outputs[0]);
  const TensorType& in = region.graph.type(region.node.inputs[static_cast<size_t>(made.view.loads[0])]);
  if (out.shape.size() < 2 || in.shape.size() != out.shape.size() || !(out.shape.back() == Dim(piece)) ||
      bit_width(out.dtype) != 16 || !has_device_type(out.dtype) || !has_device_type(in.dtype))
    return std::nullopt;
  for (const ScalarInstruction& i : made.view.program.instructions)
    if (!has_stored_type(i.dtype)) return std::nullopt;
  const auto channels = in.shape[made.axis(out.shape.size() - 1)].as_constant();
  if (!channels || *channels < 1 || *channels > made.view.filled) return std::nullopt;
  made.channels = *channels;
  return made;
}

class FillLaunch final : public Launch {
 public:
  FillLaunch(const Filling& filling, const Function& function, const KernelShapes& shapes)
      : function_(function), load_(static_cast<size_t>(filling.view.loads[0])) {
    const OperandShape& in = shapes.inputs[load_];
    const int64_t filled = filling.view.filled, pixels = piece / filled;
    Dims out = shapes.outputs[0].dims;
    out.pop_back();
    out.back() *= pixels;
    Dims own(in.dims.size()), strides, result(out.size());
    int64_t stride = 1;
    for (size_t d = own.size(); d-- > 0;) {
      own[d] = stride;
      stride = d + 1 == own.size() ? in.pitch() : stride * in.dims[d];
    }
    stride = filled;
    for (size_t d = out.size(); d-- > 0;) {
      require_equal(in.dims[filling.axis(d)], out[d], "a size of an image");
      result[d] = stride;
      stride *= out[d];
    }
    for (size_t d = 0; d < out.size(); ++d) strides.push_back(own[filling.axis(d)]);
    channel_stride_ = own[filling.axis(out.size())];
    const int64_t chunks = element_count(out) / pixels;
    constexpr int64_t most_chunks = int64_t{1} << 31;
    if (chunks > most_chunks) throw Error(ErrorCode::unsupported, "an image of more than 2^34 elements");
    if (chunks == 0) return;
    const ops::LoopNest nest = ops::collapse(out, {strides, result});
    if (nest.sizes.size() > most_space_dims)
      throw Error(ErrorCode::unsupported, "an image of more than 8 axes that cannot be merged");
    space_ = space_parameter(nest, static_cast<int>(pixels));
    constexpr int64_t most_blocks = 1 << 16;  // then each takes several
    size_.threads = pointwise_threads;
    size_.blocks = narrow(std::min((chunks + pointwise_threads - 1) / pointwise_threads, most_blocks));
  }

  void run(const LaunchArguments& arguments) override {
    if (space_.empty()) return;
    const std::byte* in = arguments.inputs[load_];
    std::byte* out = arguments.outputs[0];  // between layers, never the caller's: aligned
    void* parameters[] = {space_.data(), &channel_stride_, &in, &out};
    function_.launch(stream_of(arguments), size_, parameters);
  }

 private:
  const Function& function_;
  size_t load_;
  int64_t channel_stride_ = 0;
  std::vector<std::byte> space_;
  LaunchSize size_;
};

std::optional<double> estimate_fill(const RegionView& region, const DeviceFacts&) {
  if (!view_filling(region)) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_fill(const RegionView& region, const Workshop& workshop) {
  Filling filling = *view_filling(region);
  const auto type = [&](ValueId id) { return region.graph.type(id).dtype; };
  const Function function =
      workshop
          .module("fill",
                  fill_text(filling.view.program, type(region.node.inputs[static_cast<size_t>(filling.view.loads[0])]),
                            type(region.node.outputs[0]), filling.channels, filling.view.filled))
          .function("fill");
  return device_kernel([filling, function, device = workshop.device()](const KernelShapes& shapes) {
    return std::make_unique<FillLaunch>(filling, function, shapes);
  });
}

}  // namespace

const CudaTactic fill_tactic{"cuda_fill", estimate_fill, compile_fill};

}  // namespace camshaft::cuda

// Group and instance norm in channels-last form on a GPU, whose blocks share out the positions of an image.
#include <algorithm>
#include <bit>
#include <numeric>

#include "backends/cuda/device/group_columns_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/row_kernels.h"
#include "base/divide_up.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/reduce.h"

namespace camshaft::cuda {

namespace {

struct GroupNormKernels {
  std::shared_ptr<const Device> device;  // outlives the functions
  Function moments[2], normalize[2];     // [vector]
  int vector_elements = 4;
  size_t wide_bytes = 4;
};

/// A launch with chunks of one size.
struct Form {
  GroupColumnsParameters shape;
  LaunchSize moments, normalize;

  Form(GroupColumnsParameters given, int64_t images, int elements, size_t wide_bytes, int multiprocessors)
      : shape(given) {
    constexpr int64_t threads = column_threads, least_steps = 4, most_splits = 64;
    constexpr int64_t widest = 256;  // of a piece: a thread has a chunk of it
    const int64_t pieces = divide_up(shape.width, widest);
    shape.piece_width = pieces == 1 ? shape.width : narrow(round_up(divide_up(shape.width, pieces), elements));
    shape.pieces = narrow(divide_up(shape.width, shape.piece_width));
    const int64_t columns = int64_t{shape.tile_groups} * shape.piece_width;
    const int64_t tiles = divide_up(shape.groups, shape.tile_groups) * shape.pieces;
    shape.lanes = narrow(std::bit_ceil(static_cast<uint64_t>(divide_up(columns, elements))));
    const int64_t downs = threads / shape.lanes;
    const int64_t wanted = std::clamp<int64_t>(divide_up(2 * multiprocessors, images * tiles), 1,
                                               std::min(most_splits, divide_up(shape.positions, downs * least_steps)));
    shape.per_split = narrow(divide_up(shape.positions, wanted));
    shape.splits = narrow(divide_up(shape.positions, shape.per_split));
    shape.tiles = Divisor(narrow(tiles));
    // What a chunk has of one group: its threads have found the moments of all of that.
    shape.joined = shape.pieces > 1 ? narrow(elements) : std::gcd(shape.width, narrow(elements));
    constexpr uint32_t warp = 32;
    shape.group_lanes = std::clamp(std::bit_floor(column_threads / shape.tile_groups), 1U, warp);
    // All groups at once, where threads suffice for that: parts come from memory, which takes half a microsecond.
    shape.split_lanes = std::min(std::clamp(std::bit_floor(column_threads / shape.groups), 1U, warp),
                                 std::bit_ceil(shape.splits * shape.pieces));
    moments = {.blocks = narrow(images * tiles), .blocks_y = shape.splits, .threads = column_threads};

    const uint32_t chunks = shape.channels / narrow(elements);
    shape.chunks = Divisor(chunks);
    // Each block finds the figures of all groups first: it should have something to do with them.
    const int64_t blocks = std::clamp<int64_t>(int64_t{shape.positions} * chunks / (threads * least_steps), 1,
                                               divide_up(4 * multiprocessors, images));
    shape.blocks = Divisor(narrow(blocks));
    normalize = {.blocks = narrow(images * blocks), .threads = column_threads};
    normalize.shared_bytes =
        narrow((3 * round_up(int64_t{shape.channels}, int64_t{4}) + 2 * shape.groups) * wide_bytes);
  }
};

// Groups of a block, so that some hundred bytes of neighbours are read together, in whole chunks.
uint32_t tile_groups(uint32_t groups, uint32_t width, uint32_t elements) {
  constexpr uint32_t columns = 128;
  const uint32_t most = std::clamp<uint32_t>(columns / width, 1, groups);
  for (uint32_t count = most; count > 0; --count)
    if (count * width % elements == 0) return count;
  return most;
}

class GroupColumnsLaunch final : public Launch {
 public:
  GroupColumnsLaunch(const ops::GroupNorm& op, const GroupNormKernels& kernels, const KernelShapes& shapes)
      : kernels_(kernels) {
    const Dims& dims = shapes.inputs[0].dims;
    const int64_t channels = dims.back(), elements = element_count(dims);
    for (size_t i = 1; i < shapes.inputs.size(); ++i)
      if (!shapes.inputs[i].dims.empty())
        require_equal(shapes.inputs[i].dims[0], channels, "the length of a group norm's scale or bias");
    if (elements == 0) return;
    if (elements > int64_t{1} << 31) throw Error(ErrorCode::unsupported, "a group norm of more than 2^31 elements");
    images_ = dims[0];
    GroupColumnsParameters shape;
    shape.positions = narrow(elements / images_ / channels);
    shape.channels = narrow(channels);
    shape.groups = narrow(op.groups);
    shape.width = shape.channels / shape.groups;
    shape.epsilon = op.epsilon;
    const auto vector = narrow(kernels.vector_elements);
    shape.tile_groups = tile_groups(shape.groups, shape.width, vector);
    can_be_vector_ = shape.channels % vector == 0 && shape.tile_groups * shape.width % vector == 0;
    for (const int v : {0, 1})
      forms_.emplace_back(shape, images_, v && can_be_vector_ ? kernels.vector_elements : 1, kernels.wide_bytes,
                          kernels.device->facts().multiprocessors);
  }

  size_t workspace_bytes() const override {
    size_t bytes = 0;
    for (const Form& form : forms_)
      bytes = std::max(bytes, static_cast<size_t>(images_) * form.shape.groups * form.shape.splits * form.shape.pieces *
                                  2 * kernels_.wide_bytes);
    return bytes;
  }

  void run(const LaunchArguments& arguments) override {
    if (images_ == 0) return;
    const auto *in = arguments.inputs[0], *scale = input_of(arguments, 1), *bias = input_of(arguments, 2);
    auto* out = arguments.outputs[0];
    std::byte* partial = arguments.workspace;
    const bool vector = can_be_vector_ && is_aligned(in, 16) && is_aligned(out, 16);
    Form& form = forms_[vector];
    const Stream& stream = stream_of(arguments);
    void* first[] = {&form.shape, &in, &partial};
    kernels_.moments[vector].launch(stream, form.moments, first);
    void* second[] = {&form.shape, &in, &scale, &bias, &out, &partial};
    kernels_.normalize[vector].launch(stream, form.normalize, second);
  }

 private:
  const GroupNormKernels& kernels_;
  int64_t images_ = 0;
  bool can_be_vector_ = false;
  std::vector<Form> forms_;  // [vector]
};

std::optional<double> estimate_group_norm(const RegionView& region, const DeviceFacts&) {
  const auto* op = region.node.op.as<ops::GroupNorm>();
  if (!op || !op->channels_last || !has_norm_types(region)) return std::nullopt;
  const auto channels = region.graph.shape(region.node.inputs[0]).back().as_constant();
  constexpr int64_t most_shared = 48 * 1024;
  const DType dtype = norm_type(region, 0);
  const int64_t wide_bytes = dtype == DType::f64 ? 8 : 4;
  if (!channels || *channels < 1 || *channels % op->groups != 0 ||
      (3 * *channels + 2 * op->groups + 12) * wide_bytes > most_shared)
    return std::nullopt;
  // The other tactic reads sectors of 32 bytes for each group of each position, in one launch.
  return 2 * seconds_per_launch + 1.5 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile(const RegionView& region, const Workshop& workshop) {
  const DType dtype = norm_type(region, 0);
  const RowText text =
      group_columns_text(dtype, norm_type(region, 1), norm_type(region, 2), has_constants(region, {1, 2}));
  const Module module = workshop.module("group_norm", text.text);
  GroupNormKernels kernels;
  kernels.device = workshop.device();
  for (const int vector : {0, 1}) {
    kernels.moments[vector] = module.function(vector ? "moments_vector" : "moments");
    kernels.normalize[vector] = module.function(vector ? "normalize_vector" : "normalize");
  }
  kernels.vector_elements = text.vector_elements;
  kernels.wide_bytes = dtype == DType::f64 ? 8 : 4;
  return device_kernel(
      [op = *region.node.op.as<ops::GroupNorm>(), kernels](const KernelShapes& shapes) {
        return std::make_unique<GroupColumnsLaunch>(op, kernels, shapes);
      },
      true);
}

}  // namespace

const CudaTactic group_columns_tactic{"cuda_group_norm_columns", estimate_group_norm, compile};

}  // namespace camshaft::cuda

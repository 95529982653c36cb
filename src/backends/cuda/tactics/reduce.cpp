// Reductions on a GPU.
#include <algorithm>
#include <cstring>

#include "backends/cuda/codegen/reduce_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/reduce_form.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"
#include "compile/region/reduce_view.h"
#include "ir/ops/broadcast.h"

namespace camshaft::cuda {

namespace {

constexpr size_t most_rank = 2 * most_axes;  // kept and reduced axes, merged, take turns

struct ReduceKernels {
  std::shared_ptr<const Device> device;  // outlives the functions
  Function rows[2][2], columns[2][2];    // [vector][split]
  Function finish;
  int vector_elements = 1, wide_bytes = 4;
  std::vector<int> source_bytes;  // an element of each
};

/// The sources as they lie: of a reduction alone, the tensor that it reads.
struct Sources {
  Dims dims;  // of what is reduced
  std::vector<Dims> strides;

  Sources(const ReduceView& view, const KernelShapes& shapes) {
    if (view.before) {
      const KernelShapes before = shapes_before(view, shapes);
      dims = before.outputs[0].dims;
      strides = pointwise_strides(*view.before, before).loads;
    } else {
      dims = shapes.inputs[static_cast<size_t>(view.input)].dims;
      strides = {ops::broadcast_strides(dims, dims)};
    }
    if (element_count(dims) > most_elements)
      throw Error(ErrorCode::unsupported, "a reduction of more than 2^31 elements");
  }
};

// The nest, and the operands' addresses.
static_assert(offsetof(ReduceBehind<3>, in) == sizeof(Nest<3>) &&
              sizeof(ReduceBehind<3>) == sizeof(Nest<3>) + 3 * sizeof(void*) &&
              sizeof(ReduceSources<3>) == 3 * sizeof(void*));

/// The region's inputs that the steps behind read, and how.
struct Behind {
  std::vector<int32_t> inputs;
  std::vector<std::byte> nest;

  Behind(const ReduceView& view, const KernelShapes& shapes) {
    if (!view.behind) return;
    const PointwiseStrides all = pointwise_strides(*view.behind, shapes_behind(shapes));
    std::vector<Dims> strides;
    for (size_t k = 0; k < view.behind->loads.size(); ++k) {
      if (view.behind->loads[k] == view.reduced) continue;
      inputs.push_back(view.behind->loads[k]);
      strides.push_back(all.loads[k]);
    }
    if (inputs.empty()) return;
    const ops::LoopNest loops = ops::collapse(shapes.outputs[0].dims, strides);
    nest = nest_parameter(loops.sizes, loops.strides);
  }

  /// The bytes of ReduceBehind, or of ReduceNothingBehind.
  std::vector<std::byte> parameter() const {
    return std::vector<std::byte>(inputs.empty() ? sizeof(ReduceNothingBehind)
                                                 : nest.size() + inputs.size() * sizeof(void*));
  }
  void bind(const LaunchArguments& arguments, std::vector<std::byte>& parameter) const {
    if (inputs.empty()) return;
    std::memcpy(parameter.data(), nest.data(), nest.size());
    for (size_t k = 0; k < inputs.size(); ++k)
      std::memcpy(parameter.data() + nest.size() + k * sizeof(void*), &arguments.inputs[static_cast<size_t>(inputs[k])],
                  sizeof(void*));
  }
};

class ReduceLaunch final : public Launch {
 public:
  ReduceLaunch(const ReduceView& view, const ReduceKernels& kernels, const KernelShapes& shapes)
      : ReduceLaunch(view, kernels, shapes, Sources(view, shapes)) {}

  size_t workspace_bytes() const override {
    size_t bytes = 0;
    for (const ReduceForm* form : {&any_, &vector_})
      if (form->splits > 1)
        bytes = std::max(bytes, size_t{form->shape.outputs} * form->splits * static_cast<size_t>(kernels_.wide_bytes));
    return bytes;
  }

  void run(const LaunchArguments& arguments) override {
    if (any_.shape.outputs == 0) return;
    auto* out = arguments.outputs[0];
    bool vector = can_be_vector_;
    for (size_t k = 0; k < sources_.size(); ++k) {
      sources_[k] = arguments.inputs[static_cast<size_t>(source(k))];
      // Memory that the caller binds may begin anywhere.
      const auto chunk = static_cast<size_t>(kernels_.vector_elements * kernels_.source_bytes[k]);
      if (vector && runs_along_[k]) vector = is_aligned(sources_[k], chunk);
    }
    behind_.bind(arguments, behind_parameter_);
    ReduceForm& form = vector ? vector_ : any_;
    std::byte* partial = arguments.workspace;
    void* parameters[] = {form.parameter.data(), sources_.data(), behind_parameter_.data(), &out, &partial};
    const Stream& stream = stream_of(arguments);
    (form.columns ? kernels_.columns : kernels_.rows)[vector][form.splits > 1].launch(stream, form.size, parameters);
    if (form.splits == 1) return;
    void* merged[] = {&form.shape, &form.splits, &partial, behind_parameter_.data(), &out};
    constexpr unsigned warps = reduce_threads / 32;
    kernels_.finish.launch(stream, {.blocks = (form.shape.outputs + warps - 1) / warps, .threads = reduce_threads},
                           merged);
  }

 private:
  ReduceLaunch(const ReduceView& view, const ReduceKernels& kernels, const KernelShapes& shapes, const Sources& sources)
      : ReduceLaunch(view, kernels, shapes, sources, WalkedAxes(sources.dims, view.op.axes, sources.strides)) {}

  ReduceLaunch(const ReduceView& view, const ReduceKernels& kernels, const KernelShapes& shapes, const Sources& sources,
               const WalkedAxes& axes)
      : view_(view),
        kernels_(kernels),
        behind_(view, shapes),
        behind_parameter_(behind_.parameter()),
        sources_(sources.strides.size()),
        can_be_vector_(element_count(sources.dims) > 0 && axes.has_chunks(kernels.vector_elements)),
        any_(form(sources, axes, 1)),
        vector_(form(sources, axes, can_be_vector_ ? kernels.vector_elements : 1)) {
    for (const Dims& strides : axes.innermost().strides) runs_along_.push_back(!strides.empty() && strides.back() != 0);
    require_equal(any_.shape.outputs, element_count(shapes.outputs[0].dims), "the size of a reduction's result");
  }

  int32_t source(size_t k) const { return view_.before ? view_.before->loads[k] : view_.input; }

  ReduceForm form(const Sources& sources, const WalkedAxes& axes, int elements) const {
    int64_t count = 1, outputs = 1;
    for (size_t d = 0; d < sources.dims.size(); ++d)
      (std::count(view_.op.axes.begin(), view_.op.axes.end(), static_cast<int64_t>(d)) ? count : outputs) *=
          sources.dims[d];
    if (outputs > most_elements) throw Error(ErrorCode::unsupported, "a reduction to more than 2^31 elements");
    return {axes, outputs, count, elements, kernels_.source_bytes[0], kernels_.device->facts().multiprocessors};
  }

  const ReduceView& view_;
  const ReduceKernels& kernels_;
  Behind behind_;
  std::vector<std::byte> behind_parameter_;
  std::vector<const std::byte*> sources_;
  bool can_be_vector_;
  ReduceForm any_, vector_;
  std::vector<bool> runs_along_;  // of each source, the chunks
};

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(ReduceView view, ReduceKernels kernels) : view_(std::move(view)), kernels_(std::move(kernels)) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<ReduceLaunch>(view_, kernels_, shapes);
  }
  bool reads_slices(size_t i) const override { return static_cast<int32_t>(i) != view_.input; }

 private:
  ReduceView view_;
  ReduceKernels kernels_;
};

// Types of what a program's loads read.
std::vector<DType> load_types(const PointwiseView& part, const RegionView& region, const ReduceView& view) {
  std::vector<DType> types;
  for (const int32_t load : part.loads)
    types.push_back(load == view.reduced ? view.result.dtype
                                         : region.graph.type(region.node.inputs[static_cast<size_t>(load)]).dtype);
  return types;
}

// Each brings its address and strides in the kernel's parameters, of which there may be 4 KB. fuse() stays below.
constexpr size_t most_operands = 17;

std::optional<ReduceView> view_reduction(const RegionView& region) {
  auto view = view_reduce(region);
  if (!view || !has_device_type(view->in.dtype)) return std::nullopt;
  // Axes that are broadcast do not merge with others.
  if (view->in.shape.size() > (view->before ? most_axes : most_rank)) return std::nullopt;
  if (view->behind && view->result.shape.size() > most_axes) return std::nullopt;
  if (view->before && view->before->loads.empty()) return std::nullopt;
  for (const auto* part : {&view->before, &view->behind}) {
    if (!*part) continue;
    if ((*part)->loads.size() > most_operands) return std::nullopt;
    for (const ScalarInstruction& i : (*part)->program.instructions)
      if (!has_device_type(i.dtype)) return std::nullopt;
  }
  return view;
}

std::optional<double> estimate_reduce(const RegionView& region, const DeviceFacts&) {
  if (!view_reduction(region)) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_reduce(const RegionView& region, const Workshop& workshop) {
  ReduceView view = *view_reduction(region);
  ReduceSteps before, behind;
  ReduceKernels kernels;
  if (view.before) {
    before = {&view.before->program, load_types(*view.before, region, view)};
    for (const DType dtype : before.loads) kernels.source_bytes.push_back(bit_width(dtype) / 8);
  } else {
    kernels.source_bytes = {bit_width(view.in.dtype) / 8};
  }
  if (view.behind) {
    const std::vector<int32_t>& loads = view.behind->loads;
    const auto reduced = std::find(loads.begin(), loads.end(), view.reduced);
    behind = {&view.behind->program, load_types(*view.behind, region, view),
              static_cast<int32_t>(reduced - loads.begin())};
  }
  const ReduceText text = reduce_text(view.op.kind, view.in.dtype, before, behind);
  const Module module = workshop.module("reduce", text.text);
  kernels.device = workshop.device();
  for (const int vector : {0, 1})
    for (const int split : {0, 1}) {
      const std::string suffix = std::string(vector ? "_vector" : "") + (split ? "_split" : "");
      kernels.rows[vector][split] = module.function("rows" + suffix);
      kernels.columns[vector][split] = module.function("columns" + suffix);
    }
  kernels.finish = module.function("finish");
  kernels.vector_elements = text.vector_elements;
  kernels.wide_bytes = text.wide_bytes;
  return std::make_shared<ReduceKernel>(std::move(view), std::move(kernels));
}

}  // namespace

const CudaTactic reduce_tactic{"cuda_reduce", estimate_reduce, compile_reduce};

}  // namespace camshaft::cuda

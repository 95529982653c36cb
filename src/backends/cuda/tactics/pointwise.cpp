// Pointwise regions on a GPU.
#include <algorithm>

#include "backends/cuda/codegen/pointwise_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/driver/queue.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/space.h"
#include "compile/optimum.h"
#include "compile/region/pointwise_view.h"
#include "ir/ops/broadcast.h"

namespace camshaft::cuda {

namespace {

struct PointwiseKernels {
  std::shared_ptr<const Device> device;  // outlives the functions
  Function any, vector;
  int vector_elements = 1;
  std::vector<int> input_bytes, output_bytes;  // an element
};

class PointwiseLaunch final : public Launch {
 public:
  PointwiseLaunch(const PointwiseView& view, const PointwiseKernels& kernels, const KernelShapes& shapes)
      : loads_(view.loads), kernels_(kernels), outputs_(shapes.outputs.size()) {
    PointwiseStrides strides = pointwise_strides(view, shapes);
    std::vector<Dims> operands = std::move(strides.loads);
    operands.insert(operands.end(), strides.outputs.begin(), strides.outputs.end());
    nest_ = ops::collapse(shapes.outputs[0].dims, operands);
    elements_ = element_count(shapes.outputs[0].dims);
    if (nest_.sizes.empty()) {  // one element
      nest_.sizes = {1};
      for (Dims& strides : nest_.strides) strides = {0};
    }
    if (nest_.sizes.size() > most_space_dims)
      throw Error(ErrorCode::unsupported, "a pointwise layer of more than 8 axes that cannot be merged");
    constexpr int64_t most_chunks = int64_t{1} << 31;
    if (elements_ > most_chunks) throw Error(ErrorCode::unsupported, "a pointwise layer of more than 2^31 elements");
    can_be_vector_ = nest_.sizes.back() % kernels.vector_elements == 0;
    for (const Dims& strides : nest_.strides) {
      can_be_vector_ = can_be_vector_ && (strides.back() == 0 || strides.back() == 1);
      for (size_t d = 0; d + 1 < strides.size() && strides.back() == 1; ++d)
        can_be_vector_ = can_be_vector_ && strides[d] % kernels.vector_elements == 0;
    }
    if (elements_ == 0) return;
    any_ = space_parameter(nest_, 1);
    if (can_be_vector_) vector_ = space_parameter(nest_, kernels.vector_elements);
    pointers_.resize(loads_.size() + outputs_);
    arguments_.resize(1 + pointers_.size());
    for (size_t k = 0; k < pointers_.size(); ++k) arguments_[1 + k] = &pointers_[k];
  }

  void run(const LaunchArguments& arguments) override {
    if (elements_ == 0) return;
    bool vector = can_be_vector_;
    const auto bind = [&](size_t k, const std::byte* pointer, int bytes) {
      pointers_[k] = pointer;
      // Memory that the caller binds may begin anywhere.
      const bool matters = nest_.strides[k].back() == 1;
      vector = vector && !(matters && reinterpret_cast<uintptr_t>(pointer) %
                                          static_cast<size_t>(bytes * kernels_.vector_elements));
    };
    for (size_t k = 0; k < loads_.size(); ++k)
      bind(k, arguments.inputs[static_cast<size_t>(loads_[k])], kernels_.input_bytes[k]);
    for (size_t o = 0; o < outputs_; ++o) bind(loads_.size() + o, arguments.outputs[o], kernels_.output_bytes[o]);
    arguments_[0] = vector ? vector_.data() : any_.data();
    const int64_t chunks = elements_ / (vector ? kernels_.vector_elements : 1);
    constexpr int64_t most_blocks = 1 << 16;  // then each takes several
    LaunchSize size;
    size.threads = pointwise_threads;
    size.blocks = narrow(std::min((chunks + pointwise_threads - 1) / pointwise_threads, most_blocks));
    (vector ? kernels_.vector : kernels_.any).launch(static_cast<Queue*>(arguments.queue)->stream(), size, arguments_);
  }

 private:
  const std::vector<int32_t>& loads_;
  const PointwiseKernels& kernels_;
  size_t outputs_;
  ops::LoopNest nest_;
  int64_t elements_ = 0;
  bool can_be_vector_ = false;
  std::vector<std::byte> any_, vector_;
  std::vector<const std::byte*> pointers_;
  std::vector<void*> arguments_;
};

class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(PointwiseView view, PointwiseKernels kernels)
      : view_(std::move(view)), kernels_(std::move(kernels)) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<PointwiseLaunch>(view_, kernels_, shapes);
  }
  // With several outputs, one of them would overwrite an input that another still needs; and a transposed one lies
  // elsewhere.
  bool can_run_in_place(size_t, size_t) const override {
    return kernels_.output_bytes.size() == 1 && std::all_of(view_.permutations.begin(), view_.permutations.end(),
                                                            [](const auto& axes) { return axes.empty(); });
  }
  bool reads_slices(size_t) const override { return true; }
  bool writes_slices(size_t) const override { return true; }

 private:
  PointwiseView view_;
  PointwiseKernels kernels_;
};

std::optional<PointwiseView> view_on_device(const RegionView& region) {
  auto view = view_pointwise(region, true);
  if (!view || view->filled > 0) return std::nullopt;
  for (const ScalarInstruction& i : view->program.instructions)
    if (!has_stored_type(i.dtype)) return std::nullopt;
  for (const ValueId id : region.node.outputs)
    if (!has_stored_type(region.graph.type(id).dtype)) return std::nullopt;
  return view;
}

std::optional<double> estimate_pointwise(const RegionView& region, const DeviceFacts&) {
  if (!view_on_device(region)) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_pointwise(const RegionView& region, const Workshop& workshop) {
  PointwiseView view = *view_on_device(region);
  std::vector<DType> inputs, outputs;
  PointwiseKernels kernels;
  kernels.device = workshop.device();
  for (const int32_t load : view.loads) {
    inputs.push_back(region.graph.type(region.node.inputs[static_cast<size_t>(load)]).dtype);
    kernels.input_bytes.push_back(bit_width(inputs.back()) / 8);
  }
  for (const ValueId id : region.node.outputs) {
    outputs.push_back(region.graph.type(id).dtype);
    kernels.output_bytes.push_back(bit_width(outputs.back()) / 8);
  }
  const PointwiseText text = pointwise_text(view.program, inputs, outputs);
  const Module module = workshop.module("pointwise", text.text);
  kernels.any = module.function("pointwise");
  kernels.vector = module.function("pointwise_vector");
  kernels.vector_elements = text.vector_elements;
  return std::make_shared<PointwiseKernel>(std::move(view), std::move(kernels));
}

}  // namespace

const CudaTactic pointwise_tactic{"cuda_pointwise", estimate_pointwise, compile_pointwise};

}  // namespace camshaft::cuda

// Reductions on a GPU.
#include <algorithm>
#include <bit>

#include "compile/optimum.h"
#include "cuda/axes.h"
#include "cuda/codegen/reduce_text.h"
#include "cuda/codegen/scalar_text.h"
#include "cuda/device_kernel.h"
#include "cuda/divisor.h"
#include "cuda/row_launch.h"
#include "cuda/tactic.h"

namespace camshaft::cuda {

namespace {

constexpr size_t most_rank = 2 * most_axes;  // kept and reduced axes, merged, take turns
constexpr int64_t most_elements = int64_t{1} << 31;

/// The parameter of device/reduce.cuh.
struct Reduction {
  uint32_t outputs = 0, rows = 0, length = 0, per_split = 0, lanes = 1, columns = 0;
  Divisor blocks;
  int64_t count = 0;
  double part = 0;
  Axes kept, reduced;
};

struct Kernels {
  std::shared_ptr<const Device> device;  // outlives the functions
  Function rows[2][2], columns[2][2];    // [vector][split]
  Function finish;
  int vector_elements = 1, wide_bytes = 4, element_bytes = 4;
};

/// Neighbouring axes that are both kept or both reduced, merged.
struct MergedAxes {
  Dims kept_sizes, kept_strides, reduced_sizes, reduced_strides;
  bool ends_kept = false;  ///< the innermost of them is kept

  MergedAxes(const Dims& dims, const std::vector<int64_t>& axes) {
    int64_t stride = 1;
    bool first = true, last = false;
    for (size_t d = dims.size(); d-- > 0; stride *= dims[d]) {
      if (dims[d] == 1) continue;
      const bool kept = !std::count(axes.begin(), axes.end(), static_cast<int64_t>(d));
      Dims& sizes = kept ? kept_sizes : reduced_sizes;
      Dims& strides = kept ? kept_strides : reduced_strides;
      if (!first && kept == last) {
        sizes.front() *= dims[d];
      } else {
        sizes.insert(sizes.begin(), dims[d]);
        strides.insert(strides.begin(), stride);
      }
      if (first) ends_kept = kept;
      first = false;
      last = kept;
    }
  }
};

/// A launch with chunks of one size.
struct Form {
  Reduction shape;
  LaunchSize size;
  bool columns = false;
  unsigned splits = 1;

  Form(const MergedAxes& axes, int64_t outputs, int64_t count, int elements, int element_bytes, int multiprocessors)
      : columns(axes.ends_kept && count > 0) {
    shape.outputs = static_cast<uint32_t>(outputs);
    shape.count = count;
    shape.part = 1 / static_cast<double>(count);
    if (outputs == 0) return;
    Dims kept = axes.kept_sizes, kept_strides = axes.kept_strides;
    Dims reduced = axes.reduced_sizes, reduced_strides = axes.reduced_strides;
    if (count == 0) kept = kept_strides = reduced = reduced_strides = {};  // nothing is read
    if (columns) {
      const int64_t chunks = kept.back() / elements;
      kept.pop_back();
      kept_strides.pop_back();
      down(outputs / axes.kept_sizes.back(), chunks, count, elements * element_bytes, multiprocessors);
    } else {
      if (elements > 1) {
        reduced.back() /= elements;
        reduced_strides.back() = elements;
      }
      along(outputs, count / elements, multiprocessors);
    }
    shape.kept = Axes(kept, kept_strides);
    shape.reduced = Axes(reduced, reduced_strides);
  }

 private:
  void along(int64_t rows, int64_t length, int multiprocessors) {
    const RowLaunch launch = row_launch(rows, length, 16, reduce_threads, multiprocessors);
    shape.rows = static_cast<uint32_t>(rows);
    shape.lanes = launch.lanes;
    size = launch.size;
    split(length, launch.lanes, multiprocessors);
  }

  void down(int64_t groups, int64_t chunks, int64_t length, int64_t chunk_bytes, int multiprocessors) {
    constexpr int64_t least_bytes = 64;  // beside each other: two sectors
    auto lanes = static_cast<int64_t>(std::min<uint64_t>(std::bit_ceil(static_cast<uint64_t>(chunks)), 32));
    while (lanes * chunk_bytes > least_bytes && lanes > 1 && groups * quotient_up(chunks, lanes) < 2 * multiprocessors)
      lanes /= 2;
    const int64_t blocks = quotient_up(chunks, lanes);
    shape.rows = static_cast<uint32_t>(groups);
    shape.columns = static_cast<uint32_t>(chunks);
    shape.lanes = static_cast<uint32_t>(lanes);
    shape.blocks = Divisor(static_cast<uint32_t>(blocks));
    size.threads = reduce_threads;
    size.blocks = static_cast<unsigned>(groups * blocks);
    split(length, reduce_threads / lanes, multiprocessors);
  }

  // Several blocks for each result where one would go through more than `most_steps` and others were idle: then another
  // launch is worth it.
  void split(int64_t length, int64_t threads, int multiprocessors) {
    constexpr int64_t most_steps = 48, least_steps = 8;
    const int64_t steps = quotient_up(length, threads);
    int64_t per_split = std::max<int64_t>(length, 1);
    if (size.blocks < static_cast<unsigned>(multiprocessors) && steps > most_steps) {
      const int64_t wanted = std::min(quotient_up(2 * multiprocessors, size.blocks), quotient_up(steps, least_steps));
      per_split = quotient_up(steps, wanted) * threads;
    }
    splits = static_cast<unsigned>(std::max<int64_t>(1, quotient_up(length, per_split)));
    shape.length = static_cast<uint32_t>(length);
    shape.per_split = static_cast<uint32_t>(per_split);
    size.blocks_y = splits;
  }
};

class ReduceLaunch final : public Launch {
 public:
  ReduceLaunch(const ops::Reduce& op, const Kernels& kernels, const KernelShapes& shapes)
      : ReduceLaunch(kernels, MergedAxes(shapes.inputs[0].dims, op.axes), element_count(shapes.inputs[0].dims),
                     element_count(shapes.outputs[0].dims), counted(shapes.inputs[0].dims, op.axes)) {}

  size_t workspace_bytes() const override {
    size_t bytes = 0;
    for (const Form* form : {&any_, &vector_})
      if (form->splits > 1)
        bytes = std::max(bytes, size_t{form->shape.outputs} * form->splits * static_cast<size_t>(kernels_.wide_bytes));
    return bytes;
  }

  void run(const LaunchArguments& arguments) override {
    if (any_.shape.outputs == 0) return;
    const auto* in = arguments.inputs[0];
    auto* out = arguments.outputs[0];
    const auto chunk = static_cast<size_t>(kernels_.vector_elements * kernels_.element_bytes);
    const bool vector = can_be_vector_ && is_aligned(in, chunk);
    Form& form = vector ? vector_ : any_;
    std::byte* partial = arguments.workspace;
    void* parameters[] = {&form.shape, &in, &out, &partial};
    const Stream& stream = stream_of(arguments);
    (form.columns ? kernels_.columns : kernels_.rows)[vector][form.splits > 1].launch(stream, form.size, parameters);
    if (form.splits == 1) return;
    void* merged[] = {&form.shape.outputs, &form.splits, &form.shape.count, &form.shape.part, &partial, &out};
    constexpr unsigned warps = reduce_threads / 32;
    kernels_.finish.launch(stream, {.blocks = (form.shape.outputs + warps - 1) / warps, .threads = reduce_threads},
                           merged);
  }

 private:
  ReduceLaunch(const Kernels& kernels, const MergedAxes& axes, int64_t elements, int64_t outputs, int64_t count)
      : kernels_(kernels),
        can_be_vector_(elements > 0 && kernels.vector_elements > 1 && !innermost(axes).empty() &&
                       innermost(axes).back() % kernels.vector_elements == 0),
        any_(form(axes, outputs, count, 1)),
        vector_(form(axes, outputs, count, can_be_vector_ ? kernels.vector_elements : 1)) {
    if (elements > most_elements || outputs > most_elements)
      throw Error(ErrorCode::unsupported, "a reduction of more than 2^31 elements");
  }

  static const Dims& innermost(const MergedAxes& axes) { return axes.ends_kept ? axes.kept_sizes : axes.reduced_sizes; }
  static int64_t counted(const Dims& dims, const std::vector<int64_t>& axes) {
    int64_t count = 1;
    for (const int64_t a : axes) count *= dims[static_cast<size_t>(a)];
    return count;
  }
  Form form(const MergedAxes& axes, int64_t outputs, int64_t count, int elements) const {
    return {axes, outputs, count, elements, kernels_.element_bytes, kernels_.device->facts().multiprocessors};
  }

  const Kernels& kernels_;
  bool can_be_vector_;
  Form any_, vector_;
};

bool fits(const RegionView& region) {
  const TensorType& in = region.graph.type(region.node.inputs[0]);
  return has_device_type(in.dtype) && in.shape.size() <= most_rank;
}

std::optional<double> estimate_reduce(const RegionView& region, const DeviceFacts&) {
  if (!region.node.op.as<ops::Reduce>() || !fits(region)) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_reduce(const RegionView& region, const Workshop& workshop) {
  const auto& op = *region.node.op.as<ops::Reduce>();
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  const ReduceText text = reduce_text(op.kind, dtype);
  const Module module = workshop.module("reduce", text.text);
  Kernels kernels;
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
  kernels.element_bytes = bit_width(dtype) / 8;
  return device_kernel(
      [op, kernels](const KernelShapes& shapes) { return std::make_unique<ReduceLaunch>(op, kernels, shapes); });
}

/// The parameter of device/arg_reduce.cuh.
struct ArgReduction {
  uint32_t rows = 0, length = 0, lanes = 1;
  Divisor inner;
};

struct ArgReduceKernel {
  std::shared_ptr<const Device> device;  // outlives the function
  Function function;
};

class ArgReduceLaunch final : public Launch {
 public:
  ArgReduceLaunch(const ops::ArgReduce& op, const ArgReduceKernel& kernel, const KernelShapes& shapes)
      : kernel_(kernel) {
    const Dims& dims = shapes.inputs[0].dims;
    int64_t inner = 1;
    for (auto d = static_cast<size_t>(op.axis) + 1; d < dims.size(); ++d) inner *= dims[d];
    const int64_t rows = element_count(shapes.outputs[0].dims), length = dims[static_cast<size_t>(op.axis)];
    if (rows == 0) return;
    if (length == 0) throw Error(ErrorCode::invalid_argument, "argmax or argmin along an axis of size 0 has no result");
    if (element_count(dims) > most_elements)
      throw Error(ErrorCode::unsupported, "argmax or argmin of more than 2^31 elements");
    // Where neighbours belong to different rows, a thread a row reads them side by side.
    const RowLaunch launch =
        row_launch(rows, inner == 1 ? length : 1, 16, reduce_threads, kernel.device->facts().multiprocessors);
    shape_.rows = static_cast<uint32_t>(rows);
    shape_.length = static_cast<uint32_t>(length);
    shape_.lanes = launch.lanes;
    shape_.inner = Divisor(static_cast<uint32_t>(inner));
    size_ = launch.size;
  }

  void run(const LaunchArguments& arguments) override {
    if (shape_.rows == 0) return;
    const auto* in = arguments.inputs[0];
    auto* out = arguments.outputs[0];
    void* parameters[] = {&shape_, &in, &out};
    kernel_.function.launch(stream_of(arguments), size_, parameters);
  }

 private:
  const ArgReduceKernel& kernel_;
  ArgReduction shape_;
  LaunchSize size_;
};

std::optional<double> estimate_arg_reduce(const RegionView& region, const DeviceFacts&) {
  const auto* op = region.node.op.as<ops::ArgReduce>();
  if (!op || !has_device_type(region.graph.type(region.node.inputs[0]).dtype)) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_arg_reduce(const RegionView& region, const Workshop& workshop) {
  const auto& op = *region.node.op.as<ops::ArgReduce>();
  const Module module =
      workshop.module("arg_reduce", arg_reduce_text(op, region.graph.type(region.node.inputs[0]).dtype));
  const ArgReduceKernel kernel{workshop.device(), module.function("arg_reduce")};
  return device_kernel(
      [op, kernel](const KernelShapes& shapes) { return std::make_unique<ArgReduceLaunch>(op, kernel, shapes); });
}

}  // namespace

const CudaTactic reduce_tactic{"cuda_reduce", estimate_reduce, compile_reduce};
const CudaTactic arg_reduce_tactic{"cuda_arg_reduce", estimate_arg_reduce, compile_arg_reduce};

}  // namespace camshaft::cuda

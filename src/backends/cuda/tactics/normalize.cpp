// Layer, RMS, group and instance norm on a GPU.
#include <algorithm>
#include <array>
#include <optional>

#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/row_kernels.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"
#include "compile/region/scalar_lowering.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "ir/region.h"

namespace camshaft::cuda {

namespace {

// A layer norm, alone or as a region with what makes bytes of its rows.
struct LayerNormView {
  const ops::LayerNorm* op = nullptr;
  std::array<int32_t, 3> inputs = {-1, -1, -1};  // region inputs: x, scale, bias
  std::optional<NormSteps> steps;
  int32_t of_columns = -1;  // region input: what steps have one of for each column
};

struct NormalizeKernels {
  RowKernels rows;
  size_t element_bytes, scale_bytes, bias_bytes;
  std::array<int32_t, 3> inputs = {0, 1, 2};
  int32_t of_columns = -1;
  bool gives_rows = true, gives_steps = false;
};

class NormLaunch final : public Launch {
 public:
  NormLaunch(const NormalizeKernels& kernels, const RowParameters& rows)
      : kernels_(kernels),
        empty_(rows.rows == 0 || rows.length == 0),
        can_be_vector_(RowForm::can_be_vector(rows, kernels.rows.vector_elements)),
        any_(kernels.rows, rows, false),
        vector_(kernels.rows, rows, can_be_vector_) {}

  void run(const LaunchArguments& arguments) override {
    if (empty_) return;
    const auto operand = [&](int32_t i) { return i < 0 ? nullptr : input_of(arguments, static_cast<size_t>(i)); };
    const auto *in = operand(kernels_.inputs[0]), *scale = operand(kernels_.inputs[1]),
               *bias = operand(kernels_.inputs[2]), *of_columns = operand(kernels_.of_columns);
    auto* out = kernels_.gives_rows ? arguments.outputs[0] : nullptr;
    auto* steps = kernels_.gives_steps ? arguments.outputs[kernels_.gives_rows ? 1 : 0] : nullptr;
    const auto count = static_cast<size_t>(kernels_.rows.vector_elements);
    const auto can_load = [&](const std::byte* pointer, size_t bytes) {
      return is_aligned(pointer, std::min<size_t>(16, count * bytes));
    };
    const bool vector = can_be_vector_ && can_load(in, kernels_.element_bytes) &&
                        can_load(out, kernels_.element_bytes) && can_load(scale, kernels_.scale_bytes) &&
                        can_load(bias, kernels_.bias_bytes) && can_load(steps, 1) &&
                        can_load(of_columns, sizeof(float));
    void* parameters[] = {nullptr, &in, &scale, &bias, &out, &steps, &of_columns};
    (vector ? vector_ : any_).launch(stream_of(arguments), parameters);
  }

 private:
  const NormalizeKernels& kernels_;
  bool empty_, can_be_vector_;
  RowForm any_, vector_;
};

// Scale and bias have the shape of the normalised axes.
RowParameters rows_of(const ops::LayerNorm& op, const std::array<int32_t, 3>& inputs, const KernelShapes& shapes) {
  int64_t rows = 1, length = 1;
  const Dims& dims = shapes.inputs[static_cast<size_t>(inputs[0])].dims;
  for (size_t d = 0; d < dims.size(); ++d) (static_cast<int64_t>(d) < op.axis ? rows : length) *= dims[d];
  for (size_t i = 1; i < inputs.size() && rows * length > 0; ++i) {
    if (inputs[i] < 0 || static_cast<size_t>(inputs[i]) >= shapes.inputs.size()) continue;
    const Dims& given = shapes.inputs[static_cast<size_t>(inputs[i])].dims;
    if (!given.empty()) require_equal(element_count(given), length, "the length of a layer norm's scale or bias");
  }
  RowParameters made = row_parameters(rows, length);
  (op.clamped ? made.least : made.epsilon) = op.epsilon;
  return made;
}

RowParameters rows_of(const ops::GroupNorm& op, const KernelShapes& shapes) {
  const Dims& dims = shapes.inputs[0].dims;
  const int64_t channels = op.channels_last ? dims.back() : dims[1];
  require_equal(channels % op.groups, 0, "the remainder of channels by groups of a group norm");
  for (size_t i = 1; i < shapes.inputs.size(); ++i)
    if (!shapes.inputs[i].dims.empty())
      require_equal(shapes.inputs[i].dims[0], channels, "the length of a group norm's scale or bias");
  int64_t positions = 1;
  for (size_t d = op.channels_last ? 1 : 2; d < dims.size() - (op.channels_last ? 1 : 0); ++d) positions *= dims[d];
  const int64_t width = channels / op.groups;
  RowParameters made = row_parameters(dims[0] * op.groups, positions * width);
  made.epsilon = op.epsilon;
  if (made.rows == 0 || made.length == 0) return made;
  made.groups = Divisor(narrow(op.groups));
  made.width = narrow(width);
  made.outer = positions * channels;
  made.by_run = op.channels_last ? 0 : 1;
  made.run = Divisor(narrow(op.channels_last ? width : positions));
  made.pitch = op.channels_last ? channels : positions;
  made.inner = op.channels_last ? width : positions * width;
  return made;
}

NormalizeKernels compile(const Workshop& workshop, const RowText& text, DType in, DType scale, DType bias) {
  const auto bytes = [](DType dtype) { return static_cast<size_t>(bit_width(dtype) / 8); };
  return {RowKernels(workshop, workshop.module("normalize", text.text), text), bytes(in), bytes(scale), bytes(bias)};
}

std::optional<LayerNormView> view_layer_norm(const RegionView& region) {
  LayerNormView view;
  const auto* alone = region.node.op.as<ops::LayerNorm>();
  const auto* kind = region.node.op.as<ops::Region>();
  if (!alone && (!kind || kind->kind != ops::RegionKind::reduce || region.node.bodies[0].nodes.empty()))
    return std::nullopt;
  const Node& norm = alone ? region.node : region.node.bodies[0].nodes[0];
  view.op = norm.op.as<ops::LayerNorm>();
  if (!view.op) return std::nullopt;
  for (size_t i = 0; i < norm.inputs.size(); ++i) {
    if (norm.inputs[i] == no_value) continue;
    view.inputs.at(i) = alone ? static_cast<int32_t>(i) : input_index(region.node.bodies[0], norm.inputs[i]);
    if (view.inputs[i] < 0) return std::nullopt;
  }
  for (const int32_t input : view.inputs)
    if (input >= 0 && !has_device_type(region.graph.type(region.node.inputs[static_cast<size_t>(input)]).dtype))
      return std::nullopt;
  if (alone) return region.node.outputs.size() == 1 ? std::optional(view) : std::nullopt;
  const Graph& body = region.node.bodies[0];
  const ValueId rows = norm.outputs[0], steps = body.outputs.back();
  const auto lowered = lower_scalar_program(body, nodes_between(body, 1, body.nodes.size()), {&steps, 1});
  const bool gives_rows = body.outputs.size() == 2 && body.outputs[0] == rows;
  if (!lowered || lowered->loads.empty() || lowered->loads.size() > 2) return std::nullopt;
  const int32_t rows_load = lowered->loads[0] == rows ? 0 : 1;
  if (lowered->loads.size() <= static_cast<size_t>(rows_load) ||
      lowered->loads[static_cast<size_t>(rows_load)] != rows || body.outputs.size() != (gives_rows ? 2U : 1U) ||
      body.shape(steps) != body.shape(rows) || bit_width(body.type(steps).dtype) != 8)
    return std::nullopt;
  if (lowered->loads.size() == 2) {
    const ValueId of_columns = lowered->loads[rows_load == 0 ? 1 : 0];
    view.of_columns = input_index(body, of_columns);
    if (view.of_columns < 0 || body.type(of_columns).dtype != DType::f32 ||
        body.shape(of_columns) != Shape{body.shape(rows).back()} ||
        view.op->axis + 1 != static_cast<int64_t>(body.shape(rows).size()))
      return std::nullopt;
  }
  view.steps = NormSteps{body.type(steps).dtype, lowered->program, rows_load, gives_rows};
  return view;
}

std::optional<double> estimate_layer_norm(const RegionView& region, const DeviceFacts&) {
  if (!view_layer_norm(region)) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::optional<double> estimate_row_group_norm(const RegionView& region, const DeviceFacts&) {
  const auto* op = region.node.op.as<ops::GroupNorm>();
  if (!op || region.node.outputs.size() != 1 || !has_norm_types(region)) return std::nullopt;
  // A block has a row. Alone on its multiprocessor it reads it three times and writes it at some 100 GB/s.
  constexpr double seconds_per_byte_of_block = 2e-11;
  const Shape& shape = region.graph.shape(region.node.inputs[0]);
  const double bytes = bytes_at_optimum(region),
               rows = size_at_optimum(region, shape[0]) * static_cast<double>(op->groups);
  const double seconds =
      seconds_per_launch + std::max(bytes * seconds_per_byte, bytes / std::max(rows, 1.0) * seconds_per_byte_of_block);
  if (!op->channels_last) return seconds;
  // A block reads the channels of its group alone, from each position: in sectors of 32 bytes.
  const double width = size_at_optimum(region, region.graph.shape(region.node.inputs[0]).back()) /
                       static_cast<double>(op->groups) * bit_width(norm_type(region, 0)) / 8;
  const double waste = std::clamp(32 / std::max(width, 1.0), 1.0, 4.0);  // L2 has some of it
  return seconds_per_launch + (seconds - seconds_per_launch) * waste;
}

std::shared_ptr<const Kernel> compile_layer_norm(const RegionView& region, const Workshop& workshop) {
  const LayerNormView view = *view_layer_norm(region);
  const ops::LayerNorm op = *view.op;
  const auto type = [&](size_t i) {
    const int32_t input = view.inputs[i] < 0 ? view.inputs[0] : view.inputs[i];
    return region.graph.type(region.node.inputs[static_cast<size_t>(input)]);
  };
  const Shape shape = type(0).shape;
  int64_t length = 1;
  for (size_t d = static_cast<size_t>(op.axis); d < shape.size() && length > 0; ++d) {
    const int64_t size = shape[d].as_constant().value_or(0);
    constexpr int64_t most = 1 << 20;
    length = size > most / length ? 0 : length * size;
  }
  const DType in = type(0).dtype, scale = type(1).dtype, bias = type(2).dtype;
  NormalizeKernels kernels = compile(workshop,
                                     normalize_text(!op.root_mean_square, true, in, scale, bias,
                                                    has_constants(region, {view.inputs[1], view.inputs[2]}), length,
                                                    view.steps ? &*view.steps : nullptr),
                                     in, scale, bias);
  kernels.inputs = view.inputs;
  kernels.of_columns = view.of_columns;
  kernels.gives_steps = view.steps.has_value();
  kernels.gives_rows = !view.steps || view.steps->gives_rows;
  return device_kernel(
      [op, kernels](const KernelShapes& shapes) {
        return std::make_unique<NormLaunch>(kernels, rows_of(op, kernels.inputs, shapes));
      },
      !view.steps);
}

std::shared_ptr<const Kernel> compile_group_norm(const RegionView& region, const Workshop& workshop) {
  const DType in = norm_type(region, 0), scale = norm_type(region, 1), bias = norm_type(region, 2);
  const NormalizeKernels kernels =
      compile(workshop, normalize_text(true, false, in, scale, bias, has_constants(region, {1, 2})), in, scale, bias);
  return device_kernel(
      [op = *region.node.op.as<ops::GroupNorm>(), kernels](const KernelShapes& shapes) {
        return std::make_unique<NormLaunch>(kernels, rows_of(op, shapes));
      },
      true);
}

}  // namespace

const CudaTactic layer_norm_tactic{"cuda_layer_norm", estimate_layer_norm, compile_layer_norm};
const CudaTactic group_norm_tactic{"cuda_group_norm", estimate_row_group_norm, compile_group_norm};

}  // namespace camshaft::cuda

// Recurrent layers on a GPU.
#include "ir/ops/recurrent.h"

#include <algorithm>

#include "backends/cuda/codegen/recurrent_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/device/recurrent_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "base/divide_up.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cuda {

namespace {

enum Input : size_t { in_x, in_weights, in_recurrence, in_biases, in_lengths, in_h, in_c, in_peepholes };

struct RecurrentKernels {
  std::shared_ptr<const Device> device;  // outlives the functions
  Function begin, project, advance;
  int64_t gates = 4;
};

class RecurrentLaunch final : public Launch {
 public:
  RecurrentLaunch(const ops::Recurrent& op, const RecurrentKernels& kernels, const KernelShapes& shapes)
      : kernels_(kernels) {
    const Dims& x = shapes.inputs[in_x].dims;
    const int64_t time = x[0], batch = x[1], in = x[2], hidden = shapes.inputs[in_recurrence].dims[2];
    const int64_t directions = op.direction == ops::Direction::bidirectional ? 2 : 1;
    columns_ = kernels.gates * hidden;
    check(shapes, in_weights, {directions, columns_, in}, "the weights of a recurrent layer");
    check(shapes, in_recurrence, {directions, columns_, hidden}, "the recurrence weights of a recurrent layer");
    check(shapes, in_biases, {directions, 2 * columns_}, "the biases of a recurrent layer");
    check(shapes, in_h, {directions, batch, hidden}, "the initial h of a recurrent layer");
    check(shapes, in_c, {directions, batch, hidden}, "the initial c of a recurrent layer");
    check(shapes, in_peepholes, {directions, 3 * hidden}, "the peepholes of a recurrent layer");
    constexpr int64_t most = int64_t{1} << 31;
    for (const int64_t elements : {element_count(x), element_count(shapes.inputs[in_recurrence].dims),
                                   element_count(shapes.inputs[in_weights].dims), element_count(shapes.outputs[0].dims),
                                   directions * batch * columns_})
      if (elements > most)
        throw Error(ErrorCode::unsupported, "a recurrent layer with tensors of more than 2^31 elements");
    states_ = directions * batch * hidden;
    if (states_ == 0) return;
    constexpr int64_t most_projected = int64_t{1} << 24;  // elements: 64 MiB
    stretch_ = std::clamp<int64_t>(most_projected / (directions * batch * columns_), 1, std::max<int64_t>(time, 1));
    shape_ = {.time = narrow(time),
              .batch = narrow(batch),
              .in = narrow(in),
              .hidden = narrow(hidden),
              .directions = narrow(directions)};
    shape_.reverse = op.direction == ops::Direction::reverse         ? 1
                     : op.direction == ops::Direction::bidirectional ? 2
                                                                     : 0;
    constexpr int64_t warps = recurrent_threads / 32;
    begin_ = {.blocks = narrow(divide_up(states_, recurrent_threads)), .threads = recurrent_threads};
    advance_ = {.blocks = narrow(divide_up(hidden, warps)),
                .blocks_y = narrow(divide_up(batch, recurrent_batch_tile)),
                .blocks_z = shape_.directions,
                .threads = recurrent_threads};
    constexpr int64_t most_blocks_y = 65535;
    if (advance_.blocks_y > most_blocks_y || divide_up(stretch_ * batch, 64) > most_blocks_y)
      throw Error(ErrorCode::unsupported, "a recurrent layer with a batch of more than 262,140 rows");
  }

  // Projected inputs, two states h, one c.
  size_t workspace_bytes() const override {
    if (states_ == 0) return 0;
    return static_cast<size_t>(shape_.directions * stretch_ * shape_.batch * columns_ + 3 * states_) * sizeof(float);
  }

  void run(const LaunchArguments& arguments) override {
    if (states_ == 0) return;
    const Stream& stream = stream_of(arguments);
    const std::byte *x = arguments.inputs[in_x], *weights = arguments.inputs[in_weights],
                    *recurrence = arguments.inputs[in_recurrence], *biases = input_of(arguments, in_biases),
                    *initial_h = input_of(arguments, in_h), *initial_c = input_of(arguments, in_c),
                    *peepholes = input_of(arguments, in_peepholes);
    auto* projected = reinterpret_cast<float*>(arguments.workspace);
    float* states[2] = {projected + shape_.directions * stretch_ * shape_.batch * columns_, nullptr};
    states[1] = states[0] + states_;
    float* c = states[1] + states_;
    std::byte *y = arguments.outputs[0], *none = nullptr;
    std::byte* final_h = arguments.outputs.size() > 1 ? arguments.outputs[1] : nullptr;
    std::byte* final_c = arguments.outputs.size() > 2 ? arguments.outputs[2] : nullptr;
    const bool ends = shape_.time == 0;
    void* begin[] = {&shape_, &initial_h, &initial_c, &states[0], &c, ends ? &final_h : &none, ends ? &final_c : &none};
    kernels_.begin.launch(stream, begin_, begin);
    for (uint32_t step = 0; step < shape_.time; ++step) {
      auto steps = narrow(stretch_);
      if (step % steps == 0) shape_.first_step = step;
      steps = std::min(steps, shape_.time - shape_.first_step);
      if (step == shape_.first_step) {
        const LaunchSize size{.blocks = narrow(divide_up(columns_, 64)),
                              .blocks_y = narrow(divide_up(int64_t{steps} * shape_.batch, 64)),
                              .blocks_z = shape_.directions,
                              .threads = recurrent_threads};
        void* project[] = {&shape_, &steps, &x, &weights, &biases, &projected};
        kernels_.project.launch(stream, size, project);
      }
      const bool last = step + 1 == shape_.time;
      void* advance[] = {&shape_,
                         &steps,
                         &step,
                         &projected,
                         &recurrence,
                         &biases,
                         &peepholes,
                         &states[step % 2],
                         &states[(step + 1) % 2],
                         &c,
                         &y,
                         last ? &final_h : &none,
                         last ? &final_c : &none};
      kernels_.advance.launch(stream, advance_, advance);
    }
  }

 private:
  static void check(const KernelShapes& shapes, size_t i, const Dims& wanted, const char* what) {
    if (i >= shapes.inputs.size() || shapes.inputs[i].dims.empty()) return;
    for (size_t d = 0; d < wanted.size(); ++d) require_equal(shapes.inputs[i].dims[d], wanted[d], what);
  }

  const RecurrentKernels& kernels_;
  RecurrentParameters shape_;
  LaunchSize begin_, advance_;
  int64_t columns_ = 0, states_ = 0, stretch_ = 1;
};

bool has(const RegionView& region, size_t i) {
  return i < region.node.inputs.size() && region.node.inputs[i] != no_value;
}

std::optional<double> estimate_recurrent(const RegionView& region, const DeviceFacts&) {
  const auto* op = region.node.op.as<ops::Recurrent>();
  if (!op || !has_recurrent_text(*op) || has(region, in_lengths)) return std::nullopt;
  const DType dtype = region.graph.type(region.node.inputs[in_x]).dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return std::nullopt;
  const double steps = size_at_optimum(region, region.graph.shape(region.node.inputs[in_x])[0]);
  const double step = 2 * seconds_per_launch + elements_at_optimum(region, region.node.inputs[in_recurrence]) *
                                                   bit_width(dtype) / 8 * seconds_per_byte;
  return 2 * seconds_per_launch + steps * step + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_recurrent(const RegionView& region, const Workshop& workshop) {
  const auto& op = *region.node.op.as<ops::Recurrent>();
  const DType dtype = region.graph.type(region.node.inputs[in_x]).dtype;
  const Module module = workshop.module("recurrent", recurrent_text(op, dtype, has(region, in_peepholes)));
  RecurrentKernels kernels{workshop.device(), module.function("begin"), module.function("project"),
                           module.function("advance")};
  kernels.gates = op.cell == ops::CellKind::lstm ? 4 : op.cell == ops::CellKind::gru ? 3 : 1;
  return device_kernel(
      [op, kernels](const KernelShapes& shapes) { return std::make_unique<RecurrentLaunch>(op, kernels, shapes); });
}

}  // namespace

const CudaTactic recurrent_tactic{"cuda_recurrent", estimate_recurrent, compile_recurrent};

}  // namespace camshaft::cuda

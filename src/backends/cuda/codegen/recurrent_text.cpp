#include "backends/cuda/codegen/recurrent_text.h"

#include <fmt/format.h>

#include <bit>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

std::string activation(const std::string& name) {
  if (name == "sigmoid") return "sigmoid(x)";
  if (name == "tanh") return "tanh(x)";
  if (name == "relu") return "x < 0 ? 0.0f : x";
  return "";
}

}  // namespace

bool has_recurrent_text(const ops::Recurrent& op) {
  const size_t count = ops::activations_per_direction(op.cell);
  for (size_t i = 0; i < op.activations.size(); ++i)
    if (activation(op.activations[i]).empty() || op.activations[i] != op.activations[i % count]) return false;
  return op.cell != ops::CellKind::gru || op.linear_before_reset;
}

std::string recurrent_text(const ops::Recurrent& op, DType dtype, bool peepholes) {
  std::string text = device_text({device::collective_cuh, device::recurrent_parameters_h}) +
                     fmt::format(R"(
typedef {} Element;
constexpr u32 recurrent_threads = {}, batch_tile = {};
constexpr int cell = {};
constexpr bool peepholes = {}, input_forget = {};
__device__ __forceinline__ f32 clip() {{ return __uint_as_float({:#x}u); }}
)",
                                 device_type(dtype), recurrent_threads, recurrent_batch_tile, static_cast<int>(op.cell),
                                 peepholes, op.input_forget, std::bit_cast<uint32_t>(static_cast<float>(op.clip)));
  const size_t count = ops::activations_per_direction(op.cell);
  for (size_t i = 0; i < 3; ++i)
    text += fmt::format("__device__ __forceinline__ f32 activate_{}(f32 x) {{ return {}; }}\n", "fgh"[i],
                        activation(op.activations[i % count]));
  return text + std::string(device::recurrent_cuh) +
         fmt::format(R"(
extern "C" __global__ void __launch_bounds__({threads}) begin(const __grid_constant__ RecurrentParameters shape, const Element* h, const Element* c, f32* state_h, f32* state_c, Element* final_h, Element* final_c) {{
  take_turn();
  begin_state(shape, h, c, state_h, state_c, final_h, final_c);
}}
extern "C" __global__ void __launch_bounds__({threads}) project(const __grid_constant__ RecurrentParameters shape, u32 steps, const Element* x, const Element* weights, const Element* biases, f32* projected) {{
  take_turn();
  project_inputs(shape, steps, x, weights, biases, projected);
}}
extern "C" __global__ void __launch_bounds__({threads}) advance(const __grid_constant__ RecurrentParameters shape, u32 steps, u32 step, const f32* projected, const Element* recurrence, const Element* biases, const Element* peephole, const f32* h, f32* next_h, f32* c, Element* y, Element* final_h, Element* final_c) {{
  take_turn();
  advance_step(shape, steps, step, projected, recurrence, biases, peephole, h, next_h, c, y, final_h, final_c);
}}
)",
                     fmt::arg("threads", recurrent_threads));
}

}  // namespace camshaft::cuda

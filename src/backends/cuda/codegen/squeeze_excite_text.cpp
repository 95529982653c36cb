#include "backends/cuda/codegen/squeeze_excite_text.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

using OperandKind = GateOperand::Kind;

bool is_narrow(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

// What follows a product: load() before the sum is there, then of(sum).
std::string behind_product(const char* name, const GateProgram& step, size_t& operand) {
  std::string members, loads;
  std::vector<std::string> names;
  for (const GateOperand& input : step.inputs) {
    if (input.kind == OperandKind::given) {
      names.emplace_back("sum");
      continue;
    }
    const std::string type = device_type(input.dtype);
    members += fmt::format("  {} x{};\n", type, operand);
    loads += fmt::format("    x{0} = static_cast<const {1}*>(p.operand[{0}])[{2}];\n", operand, type,
                         input.kind == OperandKind::one ? "0" : "column");
    names.push_back(fmt::format("x{}", operand++));
  }
  const std::string statements = scalar_statements(
      step.program, [&](int32_t i) { return names[static_cast<size_t>(i)]; }, "    ",
      is_narrow(step.result) ? Accuracy::of_halves : Accuracy::full);
  return fmt::format(R"(
struct {} {{
{}  __device__ __forceinline__ void load(const SqueezeExciteParameters& p, u32 column) {{
{}  }}
  __device__ __forceinline__ f32 of(f32 sum) const {{
{}    return f32(v{});
  }}
}};
)",
                     name, members, loads, statements, step.program.outputs.at(0));
}

std::string combination(const GateProgram& step, DType dtype, size_t& operand) {
  std::string members, loads, dense;
  std::vector<std::string> names;
  for (const GateOperand& input : step.inputs) {
    if (input.kind == OperandKind::given || input.kind == OperandKind::gate) {
      names.emplace_back(input.kind == OperandKind::given ? "x[i]" : "gate[i]");
      continue;
    }
    const std::string type = device_type(input.dtype);
    if (input.kind == OperandKind::one) {
      members += fmt::format("  {} x{};\n", type, operand);
      loads += fmt::format("    x{0} = *static_cast<const {1}*>(p.operand[{0}]);\n", operand, type);
      names.push_back(fmt::format("x{}", operand++));
      continue;
    }
    if (input.kind == OperandKind::channels) {
      members += fmt::format("  {} x{}[{}];\n", type, operand, 128 / bit_width(dtype));
      loads += fmt::format("    load_piece<false>(static_cast<const {1}*>(p.operand[{0}]) + channel, count, x{0});\n",
                           operand, type);
    } else {
      dense += fmt::format(
          "    alignas(16) {1} x{0}[V];\n"
          "    load_piece<VECTOR>(static_cast<const {1}*>(p.operand[{0}]) + at, count, x{0});\n",
          operand, type);
    }
    names.push_back(fmt::format("x{}[i]", operand++));
  }
  const std::string statements = scalar_statements(
      step.program, [&](int32_t i) { return names[static_cast<size_t>(i)]; }, "      ",
      is_narrow(step.result) ? Accuracy::of_halves : Accuracy::full);
  return fmt::format(R"(
struct Scale {{
{members}  template <int V>
  __device__ __forceinline__ void load(const SqueezeExciteParameters& p, u32 channel, u32 count) {{
{loads}  }}
  template <bool VECTOR, class T, int V>
  __device__ __forceinline__ void run(const SqueezeExciteParameters& p, const T (&x)[V], const f32 (&gate)[V], u64 at, u32 count, T (&y)[V]) const {{
{dense}#pragma unroll
    for (int i = 0; i < V; ++i) {{
{statements}      y[i] = {result};
    }}
  }}
}};
)",
                     fmt::arg("members", members), fmt::arg("loads", loads), fmt::arg("dense", dense),
                     fmt::arg("statements", statements), fmt::arg("result", scalar_result(step.program, 0, dtype)));
}

}  // namespace

std::string squeeze_excite_text(const SqueezeExciteForm& form) {
  std::string text =
      device_text({device::collective_cuh, device::squeeze_excite_parameters_h, device::squeeze_excite_cuh});
  size_t operand = 0;
  text += behind_product("Squeeze", form.squeeze, operand);
  text += behind_product("Excite", form.excite, operand);
  text += combination(form.scale, form.dtype, operand);
  for (const bool holds : {true, false})
    for (const bool vector : {true, false})
      text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}, 1) squeeze_excite_{}_{}(const __grid_constant__ SqueezeExciteParameters p) {{
  squeeze_excite<{}, {}, {}, Squeeze, Excite, Scale>(p);
}}
)",
                          most_squeeze_excite_threads, holds ? "held" : "streamed", vector ? "vector" : "any",
                          device_type(form.dtype), holds, vector);
  return text;
}

}  // namespace camshaft::cuda

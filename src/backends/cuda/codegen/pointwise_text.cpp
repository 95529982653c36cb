#include "backends/cuda/codegen/pointwise_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

std::string kernel(const std::string& name, int elements, const ScalarProgram& program,
                   const std::vector<DType>& inputs, const std::vector<DType>& outputs) {
  const size_t operands = inputs.size() + outputs.size();
  std::string parameters, loads, declarations, stores, results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    parameters += fmt::format(", const {}* in{}", device_type(inputs[i]), i);
    loads +=
        fmt::format("    {0} x{1}[{2}];\n    load_chunk(in{1}, offset[{1}], space.stride[{1}][space.rank], x{1});\n",
                    device_type(inputs[i]), i, elements);
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    parameters += fmt::format(", {}* out{}", device_type(outputs[o]), o);
    declarations += fmt::format("    {} y{}[{}];\n", device_type(outputs[o]), o, elements);
    results += fmt::format("      y{}[i] = {};\n", o, scalar_result(program, o, outputs[o]));
    stores += fmt::format("    store_chunk(out{0}, offset[{1}], space.stride[{1}][space.rank], y{0});\n", o,
                          inputs.size() + o);
  }
  const bool rounded = std::all_of(outputs.begin(), outputs.end(),
                                   [](DType dtype) { return is_floating(dtype) && bit_width(dtype) <= 16; });
  const std::string statements = scalar_statements(
      program, [](int32_t input) { return fmt::format("x{}[i]", input); }, "      ",
      rounded ? Accuracy::of_halves : Accuracy::full);
  return fmt::format(R"(
extern "C" __global__ void __launch_bounds__({threads}) {name}(const __grid_constant__ Space<{operands}> space{parameters}) {{
  take_turn();
  for (u32 at = blockIdx.x * {threads}u + threadIdx.x; at < space.chunks; at += gridDim.x * {threads}u) {{
    i64 offset[{operands}];
    locate<{elements}>(space, at, offset);
{loads}{declarations}#pragma unroll
    for (int i = 0; i < {elements}; ++i) {{
{statements}{results}    }}
{stores}  }}
}}
)",
                     fmt::arg("threads", pointwise_threads), fmt::arg("name", name), fmt::arg("operands", operands),
                     fmt::arg("parameters", parameters), fmt::arg("elements", elements), fmt::arg("loads", loads),
                     fmt::arg("declarations", declarations), fmt::arg("statements", statements),
                     fmt::arg("results", results), fmt::arg("stores", stores));
}

}  // namespace

PointwiseText pointwise_text(const ScalarProgram& program, const std::vector<DType>& inputs,
                             const std::vector<DType>& outputs) {
  int widest = 8;
  for (const std::vector<DType>* types : {&inputs, &outputs})
    for (const DType dtype : *types) {
      device_type(dtype);
      widest = std::max(widest, bit_width(dtype));
    }
  PointwiseText made;
  made.vector_elements = 128 / widest;
  made.text = device_text({device::space_parameters_h, device::pointwise_cuh}) +
              kernel("pointwise", 1, program, inputs, outputs) +
              kernel("pointwise_vector", made.vector_elements, program, inputs, outputs);
  return made;
}

std::string fill_text(const ScalarProgram& program, DType input, DType output, int64_t channels, int64_t filled) {
  const std::string statements = scalar_statements(
      program, [](int32_t) { return std::string("x[c]"); }, "        ");
  return device_text({device::space_parameters_h, device::pointwise_cuh}) +
         fmt::format(R"(
extern "C" __global__ void __launch_bounds__({threads}) fill(const __grid_constant__ Space<2> space, i64 channel_stride, const {in}* in, {out}* out) {{
  constexpr int channels = {channels}, filled = {filled}, pixels = 8 / filled;
  take_turn();
  for (u32 at = blockIdx.x * {threads}u + threadIdx.x; at < space.chunks; at += gridDim.x * {threads}u) {{
    i64 offset[2];
    locate<pixels>(space, at, offset);
    {out} y[8] = {{}};
#pragma unroll
    for (int i = 0; i < pixels; ++i) {{
      {in} x[channels];
#pragma unroll
      for (int c = 0; c < channels; ++c) x[c] = in[offset[0] + i * space.stride[0][space.rank] + c * channel_stride];
#pragma unroll
      for (int c = 0; c < channels; ++c) {{
{statements}        y[i * filled + c] = {result};
      }}
    }}
    store(out + offset[1], y);
  }}
}}
)",
                     fmt::arg("threads", pointwise_threads), fmt::arg("in", device_type(input)),
                     fmt::arg("out", device_type(output)), fmt::arg("channels", channels), fmt::arg("filled", filled),
                     fmt::arg("statements", statements), fmt::arg("result", scalar_result(program, 0, output)));
}

}  // namespace camshaft::cuda

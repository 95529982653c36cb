#include "backends/cuda/codegen/row_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/rounded_steps.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

RowText begin(DType dtype, bool dense) {
  RowText made;
  made.vector_elements = 128 / bit_width(dtype);
  made.vector_chunks = std::min(8, 32 / made.vector_elements);  // 32 registers
  made.text = device_text({device::collective_cuh, device::row_parameters_h}) +
              fmt::format(
                  "\nconstexpr u32 row_threads = {};\nconstexpr bool rows_are_dense = {};\ntypedef {} Element;\n"
                  "typedef {} Wide;\n",
                  row_threads, dense, device_type(dtype), computing_type(dtype)) +
              std::string(device::rows_cuh);
  return made;
}

/// What a kernel has beside the rows, before and behind the result: declared, and as arguments.
struct Further {
  std::string before, behind;
};

void add_kernel(RowText& made, const std::string& name, const std::string& call, const std::string& shape,
                const Further& parameters, const Further& arguments) {
  made.text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) {}(const __grid_constant__ {} shape, const Element* in{}, Element* out{}) {{
  {}(shape, in{}, out{});
}}
)",
                           row_threads, name, shape, parameters.before, parameters.behind, call, arguments.before,
                           arguments.behind);
}

void add_row_kernels(RowText& made, const std::string& function, const Further& parameters = {},
                     const Further& arguments = {}) {
  const auto add = [&](const std::string& suffix, int elements, int chunks) {
    add_kernel(made, "held_one" + suffix, fmt::format("{}_held<{}, 1>", function, elements), "RowParameters",
               parameters, arguments);
    add_kernel(made, "held" + suffix, fmt::format("{}_held<{}, {}>", function, elements, chunks), "RowParameters",
               parameters, arguments);
    add_kernel(made, "any_length" + suffix, fmt::format("{}_long<{}>", function, elements), "RowParameters", parameters,
               arguments);
  };
  add("", 1, made.chunks);
  add("_vector", made.vector_elements, made.vector_chunks);
}

std::string parameter_types(DType scale, DType bias) {
  return fmt::format("typedef {} ScaleElement;\ntypedef {} BiasElement;\n", device_type(scale), device_type(bias));
}

}  // namespace

RowText softmax_text(bool logarithm, DType dtype) {
  RowText made = begin(dtype, true);
  made.text += fmt::format("constexpr bool logarithm = {};\n", logarithm) + std::string(device::softmax_parameters_h) +
               std::string(device::softmax_cuh);
  add_row_kernels(made, "softmax");
  add_kernel(made, "columns", "softmax_columns<1>", "SoftmaxColumnsParameters", {}, {});
  return made;
}

namespace {

std::string give_text(const NormSteps* steps) {
  if (!steps)
    return R"(
typedef u8 StepElement;  // there are none
template <int V>
__device__ __forceinline__ void give(Element* out, const Steps<StepElement>&, i64 at, u32, const Wide (&y)[V]) {
  store_wide(out + at, y);
}
)";
  const auto rounded = rounded_steps(steps->program, steps->program.outputs.at(0));
  const auto number = unrounded_float8(steps->program, 0);
  const bool is_approximate = rounded || number;
  const std::string statements = scalar_statements(
      steps->program, [&](int32_t load) { return std::string(load == steps->rows_load ? "x" : "of_column[v]"); },
      "    ", is_approximate ? Accuracy::of_halves : Accuracy::full);
  const std::string result = rounded ? fmt::format("    step[v] = v{};\n", rounded->value)
                             : number
                                 ? fmt::format("    step[v] = v{};\n", *number)
                                 : fmt::format("    step[v] = {};\n", scalar_result(steps->program, 0, steps->dtype));
  return fmt::format(
      R"(
typedef {type} StepElement;
template <int V>
__device__ __forceinline__ void give(Element* out, const Steps<StepElement>& steps, i64 at, u32 column, const Wide (&y)[V]) {{
  if ({gives_rows}) store_wide(out + at, y);
{columns}  {step} step[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {{
    const Element x = Narrow<Element>::from(y[v]);
{statements}{result}  }}
{stores}}}
)",
      fmt::arg("type", device_type(steps->dtype)), fmt::arg("gives_rows", steps->gives_rows),
      fmt::arg("columns", steps->program.inputs > 1 ? "  alignas(16) f32 of_column[V];\n"
                                                      "  load_parameters(steps.of_columns + column, of_column);\n"
                                                    : ""),
      fmt::arg("step", is_approximate ? "f32" : "StepElement"), fmt::arg("statements", statements),
      fmt::arg("result", result),
      fmt::arg("stores", rounded  ? fmt::format("  store_bytes(steps.to + at, step, {});\n", rounded->zero)
                         : number ? std::string("  store_float8(steps.to + at, step);\n")
                                  : std::string("  store(steps.to + at, step);\n")));
}

}  // namespace

RowText normalize_text(bool centred, bool dense, DType dtype, DType scale, DType bias, bool constant_parameters,
                       int64_t length, const NormSteps* steps) {
  RowText made = begin(dtype, dense);
  // What a warp needs: registers for more would stand between memory and further warps.
  constexpr int64_t warp = 32;
  const int64_t of_warp = warp * made.vector_elements;
  if (length > 0)
    made.vector_chunks = static_cast<int>(std::clamp<int64_t>((length + of_warp - 1) / of_warp, 1, made.vector_chunks));
  made.text +=
      fmt::format("constexpr bool centred = {}, parameters_are_constant = {};\n", centred, constant_parameters) +
      parameter_types(scale, bias) + "template <class T>\nstruct Steps {\n  T* to;\n  const f32* of_columns;\n};\n" +
      give_text(steps) + std::string(device::normalize_cuh);
  add_row_kernels(made, "normalize",
                  {", const ScaleElement* scale, const BiasElement* bias",
                   steps ? ", StepElement* steps, const f32* of_columns" : ""},
                  {", scale, bias", steps ? ", Steps<StepElement>{steps, of_columns}" : ", Steps<StepElement>{}"});
  return made;
}

RowText group_columns_text(DType dtype, DType scale, DType bias, bool constant_parameters) {
  RowText made = begin(dtype, false);
  made.text += fmt::format("constexpr u32 column_threads = {};\nconstexpr bool parameters_are_constant = {};\n",
                           column_threads, constant_parameters) +
               parameter_types(scale, bias) + std::string(device::group_columns_parameters_h) +
               std::string(device::group_columns_cuh);
  for (const int elements : {1, made.vector_elements})
    made.text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__({threads}) moments{suffix}(const __grid_constant__ GroupColumnsParameters shape, const Element* in, Wide* partial) {{
  find_moments<{elements}>(shape, in, partial);
}}
extern "C" __global__ void __launch_bounds__({threads}) normalize{suffix}(const __grid_constant__ GroupColumnsParameters shape, const Element* in, const ScaleElement* scale, const BiasElement* bias, Element* out, const Wide* partial) {{
  normalize_columns<{elements}>(shape, in, scale, bias, out, partial);
}}
)",
                             fmt::arg("threads", column_threads), fmt::arg("suffix", elements == 1 ? "" : "_vector"),
                             fmt::arg("elements", elements));
  return made;
}

}  // namespace camshaft::cuda

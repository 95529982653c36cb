#include "backends/cuda/codegen/reduce_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

using KindOfReduce = ops::ReduceKind;

struct Rule {
  std::string identity, take, merge, finish;
};

// The least or largest of a type. Integers are reduced in 64 bits.
std::string extreme(DType dtype, bool least) {
  const std::string wide = computing_type(dtype);
  if (is_floating(dtype)) return fmt::format("{}({}__uint_as_float(0x7f800000u))", wide, least ? "-" : "");
  const int bits = dtype == DType::boolean ? 1 : bit_width(dtype);
  const bool is_plain = dtype == DType::boolean || !is_signed(dtype);
  const uint64_t largest = ~uint64_t{0} >> (is_plain ? 64 - bits : 65 - bits);
  return fmt::format("{}({:#x}ull)", wide, least ? (is_plain ? 0 : ~largest) : largest);
}

Rule rule_of(KindOfReduce kind, DType dtype) {
  const std::string zero = computing_type(dtype) + "(0)";
  Rule rule{zero, "add(s, x)", "add(a, b)", "s"};
  switch (kind) {
    case KindOfReduce::sum:
      break;
    case KindOfReduce::mean:
      rule.finish = is_floating(dtype) ? "s * part" : "count == 0 ? Wide(0) : s / Wide(count)";
      break;
    case KindOfReduce::max:
      return {extreme(dtype, true), "max_(s, x)", "max_(a, b)", "s"};
    case KindOfReduce::min:
      return {extreme(dtype, false), "min_(s, x)", "min_(a, b)", "s"};
    case KindOfReduce::prod:
      return {computing_type(dtype) + "(1)", "mul(s, x)", "mul(a, b)", "s"};
    case KindOfReduce::sum_squares:
      rule.take = "add(s, mul(x, x))";
      break;
    case KindOfReduce::sum_abs:
      rule.take = "add(s, abs_(x))";
      break;
  }
  return rule;
}

// What is reduced, as a function of V elements of each source.
std::string sources_text(DType dtype, const ReduceSteps& before) {
  const std::vector<DType> types = before.program ? before.loads : std::vector<DType>{dtype};
  std::string chunks, fetches;
  for (size_t k = 0; k < types.size(); ++k) {
    const std::string type = device_type(types[k]);
    chunks += fmt::format("  alignas(16) {} x{}[V];\n", type, k);
    fetches += fmt::format(
        "  fetch_source<V>(static_cast<const {1}*>(from.in[{0}]) + offset[{0}], along[{0}], to.x{0});\n", k, type);
  }
  std::string statements, result = "x.x0[i]";
  if (before.program) {
    statements = scalar_statements(
        *before.program, [](int32_t load) { return fmt::format("x.x{}[i]", load); }, "  ");
    result = scalar_result(*before.program, 0, dtype);
  }
  return fmt::format(R"(
constexpr int operands = {operands};
typedef ReduceSources<operands> Sources;
template <int V>
struct Chunk {{
{chunks}}};
template <int V>
__device__ __forceinline__ void fetch(const Sources& from, const i64 (&offset)[operands], const i64 (&along)[operands], Chunk<V>& to) {{
{fetches}}}
template <int V>
__device__ __forceinline__ Element value(const Chunk<V>& x, int i) {{
{statements}  return {result};
}}
)",
                     fmt::arg("operands", types.size()), fmt::arg("chunks", chunks), fmt::arg("fetches", fetches),
                     fmt::arg("statements", statements), fmt::arg("result", result));
}

std::string behind_text(DType dtype, const ReduceSteps& behind) {
  std::string type = "ReduceNothingBehind", offsets, statements, result = "reduced";
  if (behind.program) {
    std::vector<std::string> loads;
    int others = 0;
    for (size_t k = 0; k < behind.loads.size(); ++k) {
      const bool is_result = static_cast<int32_t>(k) == behind.reduced;
      loads.push_back(is_result ? "reduced"
                                : fmt::format("static_cast<const {1}*>(behind.in[{0}])[offset[{0}]]", others,
                                              device_type(behind.loads[k])));
      others += is_result ? 0 : 1;
    }
    if (others > 0) {
      type = fmt::format("ReduceBehind<{}>", others);
      offsets = fmt::format("  i64 offset[{}] = {{}};\n  add_offset(behind.nest, output, offset);\n", others);
    }
    statements = scalar_statements(
        *behind.program, [&](int32_t load) { return loads[static_cast<size_t>(load)]; }, "  ");
    result = scalar_result(*behind.program, 0, dtype);
  }
  return fmt::format(R"(typedef {} Behind;
__device__ __forceinline__ Element go_on(const Behind& behind, u32 output, Element reduced) {{
{}{}  return {};
}}
)",
                     type, offsets, statements, result);
}

}  // namespace

ReduceText reduce_text(KindOfReduce kind, DType dtype, const ReduceSteps& before, const ReduceSteps& behind) {
  const Rule rule = rule_of(kind, dtype);
  ReduceText made;
  int widest = before.program ? 8 : bit_width(dtype);
  for (const DType load : before.loads) widest = std::max(widest, bit_width(load));
  made.vector_elements = std::min(8, 128 / widest);
  made.wide_bytes = computing_type(dtype) == "f32" ? 4 : 8;
  made.text =
      device_text({device::collective_cuh, device::axes_parameters_h, device::axes_cuh, device::reduce_parameters_h});
  made.text += fmt::format(R"(
constexpr u32 reduce_threads = {};
typedef {} Element;
typedef {} Wide;
struct Rule {{
  __device__ __forceinline__ static Wide identity() {{ return {}; }}
  __device__ __forceinline__ static Wide take(Wide s, Wide x) {{ return {}; }}
  __device__ __forceinline__ static Wide merge(Wide a, Wide b) {{ return {}; }}
  __device__ __forceinline__ static Wide finish(Wide s, i64 count, Wide part) {{ return {}; }}
}};
)",
                           reduce_threads, device_type(dtype), computing_type(dtype), rule.identity, rule.take,
                           rule.merge, rule.finish);
  made.text += sources_text(dtype, before) + behind_text(dtype, behind) + std::string(device::reduce_cuh);
  for (const char* form : {"rows", "columns"})
    for (const int elements : {1, made.vector_elements})
      for (const bool split : {false, true}) {
        made.text +=
            fmt::format(R"(
extern "C" __global__ void __launch_bounds__({threads}) {form}{vector}{suffix}(const __grid_constant__ ReduceParameters<operands> p, const __grid_constant__ Sources from, const __grid_constant__ Behind behind, Element* out, Wide* partial) {{
  take_turn();
  reduce_{form}<{elements}, {split}>(p, from, behind, out, partial);
}}
)",
                        fmt::arg("threads", reduce_threads), fmt::arg("form", form),
                        fmt::arg("vector", elements == 1 ? "" : "_vector"), fmt::arg("suffix", split ? "_split" : ""),
                        fmt::arg("elements", elements), fmt::arg("split", split));
      }
  made.text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) finish(const __grid_constant__ ReduceShape shape, u32 splits, const Wide* partial, const __grid_constant__ Behind behind, Element* out) {{
  take_turn();
  finish_splits(shape, splits, partial, behind, out);
}}
)",
                           reduce_threads);
  return made;
}

std::string arg_reduce_text(const ops::ArgReduce& op, DType dtype) {
  return device_text({device::collective_cuh, device::arg_reduce_parameters_h}) +
         fmt::format(R"(
constexpr u32 reduce_threads = {};
typedef {} Element;
typedef {} Wide;
constexpr bool largest = {}, select_last = {};
)",
                     reduce_threads, device_type(dtype), computing_type(dtype), op.largest, op.select_last) +
         std::string(device::arg_reduce_cuh) +
         fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) arg_reduce(const __grid_constant__ ArgReduceParameters shape, const Element* in, i64* out, Extreme* partial) {{
  take_turn();
  arg_extreme(shape, in, out, partial);
}}
extern "C" __global__ void __launch_bounds__({}) arg_merge(const __grid_constant__ ArgReduceParameters shape, const Element* in, i64* out, Extreme* partial) {{
  take_turn();
  merge_extremes(shape, partial, out);
}}
)",
                     reduce_threads, reduce_threads);
}

}  // namespace camshaft::cuda

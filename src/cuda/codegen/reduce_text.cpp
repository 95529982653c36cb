#include "cuda/codegen/reduce_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

using Kind = ops::ReduceKind;

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

Rule rule_of(Kind kind, DType dtype) {
  const std::string zero = computing_type(dtype) + "(0)";
  Rule rule{zero, "add(s, x)", "add(a, b)", "s"};
  switch (kind) {
    case Kind::sum:
      break;
    case Kind::mean:
      rule.finish = is_floating(dtype) ? "s * part" : "count == 0 ? Wide(0) : s / Wide(count)";
      break;
    case Kind::max:
      return {extreme(dtype, true), "max_(s, x)", "max_(a, b)", "s"};
    case Kind::min:
      return {extreme(dtype, false), "min_(s, x)", "min_(a, b)", "s"};
    case Kind::prod:
      return {computing_type(dtype) + "(1)", "mul(s, x)", "mul(a, b)", "s"};
    case Kind::sum_squares:
      rule.take = "add(s, mul(x, x))";
      break;
    case Kind::sum_abs:
      rule.take = "add(s, abs_(x))";
      break;
  }
  return rule;
}

std::string prologue() {
  return std::string(device::intrinsics_cuh) + std::string(device::scalar_cuh) + std::string(device::collective_cuh);
}

}  // namespace

ReduceText reduce_text(Kind kind, DType dtype) {
  const Rule rule = rule_of(kind, dtype);
  ReduceText made;
  made.vector_elements = std::min(8, 128 / bit_width(dtype));
  made.wide_bytes = computing_type(dtype) == "f32" ? 4 : 8;
  made.text = prologue() + std::string(device::axes_cuh);
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
  made.text += std::string(device::reduce_cuh);
  for (const char* form : {"rows", "columns"})
    for (const int elements : {1, made.vector_elements})
      for (const bool split : {false, true}) {
        made.text +=
            fmt::format(R"(
extern "C" __global__ void __launch_bounds__({threads}) {form}{vector}{suffix}(const __grid_constant__ Reduction shape, const Element* in, Element* out, Wide* partial) {{
  take_turn();
  reduce_{form}<{elements}, {split}>(shape, in, out, partial);
}}
)",
                        fmt::arg("threads", reduce_threads), fmt::arg("form", form),
                        fmt::arg("vector", elements == 1 ? "" : "_vector"), fmt::arg("suffix", split ? "_split" : ""),
                        fmt::arg("elements", elements), fmt::arg("split", split));
      }
  made.text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) finish(u32 outputs, u32 splits, i64 count, f64 part, const Wide* partial, Element* out) {{
  take_turn();
  finish_splits(outputs, splits, count, part, partial, out);
}}
)",
                           reduce_threads);
  return made;
}

std::string arg_reduce_text(const ops::ArgReduce& op, DType dtype) {
  return prologue() +
         fmt::format(R"(
constexpr u32 reduce_threads = {};
typedef {} Element;
typedef {} Wide;
constexpr bool largest = {}, select_last = {};
)",
                     reduce_threads, device_type(dtype), computing_type(dtype), op.largest, op.select_last) +
         std::string(device::arg_reduce_cuh) +
         fmt::format(R"(
extern "C" __global__ void __launch_bounds__({}) arg_reduce(const __grid_constant__ ArgReduction shape, const Element* in, i64* out) {{
  take_turn();
  arg_extreme(shape, in, out);
}}
)",
                     reduce_threads);
}

}  // namespace camshaft::cuda

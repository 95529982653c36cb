#include "builder/precision.h"

#include <fmt/format.h>

#include <utility>

namespace camshaft {

namespace {

DType choose_storage(const BuildOptions& options, const Backend& backend) {
  if (options.fp16 && backend.gains_from(DType::f16)) return DType::f16;
  if (options.bf16 && backend.gains_from(DType::bf16)) return DType::bf16;
  return DType::f32;
}

// Where tensors are stored in halves anyhow, --bf16 says nothing of those that stay f32.
ops::Rounding choose_rounding(const BuildOptions& options, const Backend& backend, DType storage) {
  if (options.bf16 && storage == DType::f32 && backend.gains_from_rounding(ops::Rounding::bf16))
    return ops::Rounding::bf16;
  if (options.tf32 && backend.gains_from_rounding(ops::Rounding::tf32)) return ops::Rounding::tf32;
  return ops::Rounding::none;
}

}  // namespace

double Precision::noise() const {
  if (storage == DType::bf16 || rounding == ops::Rounding::bf16) return 0x1p-8;
  if (storage == DType::f16 || rounding == ops::Rounding::tf32) return 0x1p-11;
  return 0x1p-22;
}

Precision choose_precision(const BuildOptions& options, const Backend& backend) {
  const DType storage = choose_storage(options, backend);
  return {storage, choose_rounding(options, backend, storage)};
}

BuildOptions with_used_precisions(BuildOptions options, const Precision& used) {
  options.fp16 = used.storage == DType::f16;
  options.bf16 = used.storage == DType::bf16 || used.rounding == ops::Rounding::bf16;
  options.tf32 = used.rounding == ops::Rounding::tf32;
  return options;
}

BuildOptions with_precisions(BuildOptions options, const Backend& backend) {
  if (options.strongly_typed) {
    const std::pair<bool, const char*> others[] = {{options.fp16, "fp16"}, {options.bf16, "bf16"},
                                                   {options.tf32, "tf32"}, {options.int8, "int8"},
                                                   {options.fp8, "fp8"},   {options.best, "best"}};
    for (const auto& [is_set, name] : others)
      if (is_set)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("strongly-typed keeps the types of the model's tensors, {} changes them: give one of "
                                "the two",
                                name));
    if (!options.layer_precisions.empty() || !options.layer_output_types.empty())
      throw Error(ErrorCode::invalid_argument,
                  "strongly-typed keeps the types of the model's tensors: no precision can be asked of layers");
  }
  for (const PrecisionRule& rule : options.layer_output_types)
    if (rule.precision == LayerPrecision::int8 || rule.precision == LayerPrecision::fp8)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("the results of '{0}' cannot be stored as {1} by themselves: whether they are follows from "
                      "the layers that read them. Ask {1} of those (layer-precisions)",
                      rule.pattern, EnumNames<LayerPrecision>::values[static_cast<size_t>(rule.precision)]));
  if (options.fp8 && !backend.gains_from(DType::f8e4m3))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("fp8 (--fp8) needs a GPU of compute capability 8.9 or more, as of Ada, Hopper and Blackwell: "
                    "{} has no products of 8-bit floats. Build without it, with fp16 or int8, or for another "
                    "device (--device)",
                    backend.device().name));
  if (!options.best) return options;
  if (backend.gains_from(DType::f16)) options.fp16 = true;
  const bool gains_from_bf16 = backend.gains_from(DType::bf16) || backend.gains_from_rounding(ops::Rounding::bf16);
  if (!options.fp16 && gains_from_bf16) options.bf16 = true;
  if (backend.gains_from_rounding(ops::Rounding::tf32)) options.tf32 = true;
  if (backend.gains_from(DType::i8) && !options.calibration.empty()) options.int8 = true;
  if (backend.gains_from(DType::f8e4m3) && !options.calibration.empty()) options.fp8 = true;
  return options;
}

}  // namespace camshaft

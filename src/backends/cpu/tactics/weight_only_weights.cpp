#include "backends/cpu/tactics/weight_only_weights.h"

#include <cstring>

#include "compile/constants/layout_text.h"
#include "ir/ops/weight_only.h"

namespace camshaft::cpu {

namespace {

struct PackedSteps {
  NarrowWeights weights;
  bool transposed = false;
};

constexpr auto step_numbers = [](auto& packed, auto&& number) {
  number("narrow bits=", packed.weights.bits);
  number(" k=", packed.weights.k);
  number(" n=", packed.weights.words.n);
  number(" width=", packed.weights.words.width);
  number(" lanes=", packed.weights.words.lanes);
  number(" transposed=", packed.transposed);
};

// Scales and zero points, one a block and column.
struct PackedParameters {
  PackedLayout layout;
  bool transposed = false;
};

constexpr auto parameter_numbers = [](auto& packed, auto&& number) {
  number("narrow_parameters blocks=", packed.layout.k);
  number(" n=", packed.layout.n);
  number(" width=", packed.layout.width);
  number(" lanes=", packed.layout.lanes);
  number(" transposed=", packed.transposed);
};

NarrowElements elements_of(DType dtype, int64_t k, int64_t n, bool transposed) {
  return {is_signed(dtype), transposed ? 1 : n, transposed ? k : 1};
}

float code_of_zero(DType steps) {
  return is_signed(steps) ? static_cast<float>(1 << (bit_width(steps) - 1)) : 0.0F;
}

size_t bytes_of(const PackedLayout& layout, DType dtype) {
  return static_cast<size_t>(layout.floats()) * (dtype == DType::f32 ? 4 : dtype == DType::f16 ? 2 : 1);
}

const std::byte* packed_parameter(const RegionView& region, int32_t input, const PackedParameters& packed,
                                  PackedConstants& constants) {
  const Value& value = region.graph.value(region.node.inputs[static_cast<size_t>(input)]);
  const DType dtype = value.type.dtype;
  const PackedLayout& layout = packed.layout;
  const NarrowElements from = elements_of(dtype, layout.k, layout.n, packed.transposed);
  const auto pack = [&](const Tensor& raw, std::byte* out) {
    if (dtype == DType::f16) return pack_halves(layout, from, raw.as<uint16_t>(), reinterpret_cast<uint16_t*>(out));
    if (dtype != DType::f32)
      return pack_zeros(layout, bit_width(dtype), from, raw.data(), reinterpret_cast<uint8_t*>(out));
    pack_b(layout, raw.as<float>(), from.k_stride, from.n_stride, reinterpret_cast<float*>(out));
  };
  return constants
      .get(value.name, layout_text(parameter_numbers, packed), *value.constant, bytes_of(layout, dtype), pack)
      .data();
}

bool is_plain_matrix_of(const Dims& dims, int64_t k, int64_t n, bool transposed) {
  return dims.size() == 2 && dims[transposed ? 1 : 0] == k && dims[transposed ? 0 : 1] == n;
}

Tensor unpack_parameter(const PackedParameters& named, const PackedConstant& packed, DType dtype, const Dims& dims) {
  const PackedLayout& layout = named.layout;
  const bool sane = is_plain_matrix_of(dims, layout.k, layout.n, named.transposed) && layout.has_possible_panels() &&
                    (dtype == DType::f32 || dtype == DType::f16 || ops::is_narrow_step(dtype));
  if (!sane || packed.bytes.size() != bytes_of(layout, dtype)) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  std::memset(raw.mutable_data(), 0, raw.bytes());
  const NarrowElements to = elements_of(dtype, layout.k, layout.n, named.transposed);
  if (dtype == DType::f32) {
    unpack_b(layout, reinterpret_cast<const float*>(packed.bytes.data()), raw.as_mutable<float>(), to.k_stride,
             to.n_stride);
  } else if (dtype == DType::f16) {
    unpack_halves(layout, to, reinterpret_cast<const uint16_t*>(packed.bytes.data()), raw.as_mutable<uint16_t>());
  } else {
    unpack_zeros(layout, bit_width(dtype), to, reinterpret_cast<const uint8_t*>(packed.bytes.data()),
                 raw.mutable_data());
  }
  return raw;
}

}  // namespace

PackedWeightOnly packed_weight_only(const RegionView& region, const WeightOnlyOperands& operands,
                                    PackedConstants& constants) {
  const auto type = [&](int32_t i) -> const TensorType& {
    return region.graph.type(region.node.inputs[static_cast<size_t>(i)]);
  };
  const Value& steps = region.graph.value(region.node.inputs[static_cast<size_t>(operands.steps)]);
  const Dims& dims = steps.constant->dims();
  const DType dtype = steps.type.dtype;
  const int64_t k = dims[operands.transposed ? 1 : 0], n = dims[operands.transposed ? 0 : 1];
  PackedWeightOnly made;
  made.layout = narrow_weights(bit_width(dtype), k, n, operands.block);
  made.code_of_zero = code_of_zero(dtype);
  const PackedSteps packed{made.layout, operands.transposed};
  made.steps =
      constants
          .get(steps.name, layout_text(step_numbers, packed), *steps.constant, static_cast<size_t>(made.layout.bytes()),
               [&](const Tensor& raw, std::byte* out) {
                 pack_narrow(made.layout, elements_of(dtype, k, n, operands.transposed), raw.data(), out);
               })
          .data();
  const PackedParameters parameters{made.layout.parameters(), operands.transposed};
  const std::byte* scales = packed_parameter(region, operands.scale, parameters, constants);
  if (type(operands.scale).dtype == DType::f16) {
    made.half_scales = reinterpret_cast<const uint16_t*>(scales);
  } else {
    made.scales = reinterpret_cast<const float*>(scales);
  }
  if (operands.zero < 0) return made;
  made.reads_zero = type(operands.zero).shape.empty();
  if (made.reads_zero) return made;
  const std::byte* zeros = packed_parameter(region, operands.zero, parameters, constants);
  if (type(operands.zero).dtype == DType::f32) {
    made.zero_floats = reinterpret_cast<const float*>(zeros);
  } else {
    made.zero_bytes = reinterpret_cast<const uint8_t*>(zeros);
  }
  return made;
}

Tensor unpack_weight_only(const PackedConstant& packed, DType dtype, const Dims& dims) {
  PackedParameters parameters;
  if (read_layout_text(packed.layout, parameter_numbers, parameters))
    return unpack_parameter(parameters, packed, dtype, dims);
  PackedSteps named;
  if (!read_layout_text(packed.layout, step_numbers, named)) return {};
  NarrowWeights& w = named.weights;
  const bool sane = ops::is_narrow_step(dtype) && bit_width(dtype) == w.bits && w.words.has_possible_panels() &&
                    is_plain_matrix_of(dims, w.k, w.words.n, named.transposed);
  if (!sane) throw_misfit(packed, dims);
  w.words.k = (w.k + w.word_elements() - 1) / w.word_elements();
  if (packed.bytes.size() != static_cast<size_t>(w.bytes())) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  std::memset(raw.mutable_data(), 0, raw.bytes());
  unpack_narrow(w, elements_of(dtype, w.k, w.words.n, named.transposed), packed.bytes.data(), raw.mutable_data());
  return raw;
}

}  // namespace camshaft::cpu

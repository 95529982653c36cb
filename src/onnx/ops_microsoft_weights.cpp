// Operators of the domain com.microsoft on weights of few bits: products and look-ups.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
//
// Weights are dequantised by ops::Dequantize, from steps as narrow as the model has them where they are constants;
// others are taken apart by shifts and masks.
#include <fmt/format.h>

#include <array>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"
#include "ir/ops/weight_only.h"
#include "onnx/converters.h"
#include "onnx/matmul.h"
#include "onnx/quantization.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

int64_t positive_attribute(ConvertContext& c, std::string_view name, std::optional<int64_t> otherwise = std::nullopt) {
  const int64_t value = c.int_attribute(name, otherwise);
  constexpr int64_t largest = int64_t{1} << 31;  // products of two stay in range
  if (value < 1 || value > largest)
    c.invalid(fmt::format("attribute '{}' is {}, it must lie between 1 and {}", name, value, largest));
  return value;
}

// The codes of `bits` bits in a u8 tensor, one an element: the last axis gets longer. The first is in a byte's low
// bits, or high ones.
ValueId unpack(ConvertContext& c, ValueId packed, int64_t bits, bool high_first = false) {
  if (bits == 8) return packed;
  if (c.rank(packed) == 0) c.invalid("packed elements are a scalar");
  const int64_t in_a_byte = 8 / bits;
  std::vector<uint8_t> shifts;
  for (int64_t i = 0; i < in_a_byte; ++i)
    shifts.push_back(static_cast<uint8_t>((high_first ? in_a_byte - 1 - i : i) * bits));
  Shape split = c.shape(packed);
  split.emplace_back(1);
  Shape joined = c.shape(packed);
  joined.back() = joined.back() * Dim(in_a_byte);
  const ValueId columns = c.reshape(packed, std::move(split));
  const ValueId moved = c.add(F::shift_right, {columns, c.add_constant(Tensor::of(DType::u8, {in_a_byte}, shifts))});
  const ValueId codes = c.add(F::bitwise_and, {moved, c.scalar(DType::u8, static_cast<double>((1 << bits) - 1))});
  return c.reshape(codes, std::move(joined));
}

// Rows of codes; with `narrow` in a type of so few bits, without a copy: what is no constant has kernels for bytes
// alone.
ValueId unpack_rows(ConvertContext& c, ValueId packed, int64_t bits, int64_t rows, int64_t bytes, bool narrow) {
  if (bits == 8) return c.reshape(packed, {rows, bytes});
  if (!narrow) return unpack(c, c.reshape(packed, {rows, bytes}), bits);
  return c.reshape(c.add(ops::ReadBytesAs{bits == 4 ? DType::u4 : DType::u2}, {packed}), {rows, bytes * 8 / bits});
}

// The first `size` along the last axis.
ValueId first_of_last_axis(ConvertContext& c, ValueId x, Dim size) {
  const int64_t axis = c.rank(x) - 1;
  if (c.dim(x, axis) == size) return x;
  return c.add(ops::Slice{{axis}, {Dim(0)}, {size}, {1}}, {x});
}

void check_shape(ConvertContext& c, ValueId id, const Shape& wanted, std::string_view what) {
  Dim elements = product(c.shape(id));
  if (elements != product(wanted))
    c.invalid(
        fmt::format("{} is {}, {} elements are needed", what, to_string(c.graph().type(id)), product(wanted).str()));
}

ValueId biased(ConvertContext& c, ValueId product, size_t i) {
  return c.has(i) ? c.result_at(0, ops::Pointwise{F::add}, {product, c.input(i)}) : product;
}

// What `accuracy_level` 4 allows a product to be computed of, in place of A: bytes by blocks of 32, as ONNX Runtime
// takes them. Of what products of bytes can take: constant weights in blocks of whole vectors.
ValueId rounded_activations(ConvertContext& c, ValueId a, int64_t block, int64_t k) {
  constexpr int64_t int8_level = 4, rounded_block = 32, grain = 16;
  if (c.int_attribute("accuracy_level", 0) != int8_level || c.dtype(a) != DType::f32 || c.has(4)) return a;
  if (block % grain != 0 && block < k) return a;
  for (const size_t i : {size_t{1}, size_t{2}, size_t{3}})
    if (c.has(i) && !c.is_constant(c.input(i))) return a;
  return c.rank(a) > 0 && c.dim(a, c.rank(a) - 1) == Dim(k) ? c.add(ops::RoundBlocks{rounded_block}, {a}) : a;
}

Values matmul_nbits(ConvertContext& c) {
  const int64_t n = positive_attribute(c, "N"), k = positive_attribute(c, "K");
  const int64_t block = positive_attribute(c, "block_size"), bits = c.int_attribute("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) c.unsupported(fmt::format("weights of {} bits; 2, 4 and 8 are", bits));
  if (block * bits % 8 != 0) c.invalid(fmt::format("blocks of {} elements of {} bits are no whole bytes", block, bits));
  if (c.int_attribute("weight_prepacked", 0) != 0) c.unsupported("weights packed for one machine");
  const int64_t blocks = (k + block - 1) / block;
  const ValueId a = c.input(0);
  check_shape(c, c.input(1), {n, blocks, block * bits / 8}, "B");
  check_shape(c, c.input(2), {n, blocks}, "scales");
  const bool by_position = c.has(4), real_zero = c.has(3) && is_floating(c.dtype(c.input(3)));
  const auto is_narrow = [&](size_t i) { return !by_position && c.is_constant(c.input(i)) && c.rank(c.input(i)) > 0; };
  const ValueId codes = unpack_rows(c, c.input(1), bits, n, blocks * block * bits / 8, is_narrow(1));
  ValueId weights = first_of_last_axis(c, codes, k);
  const ValueId scales = c.cast(c.reshape(c.input(2), {n, blocks}), DType::f32);
  ValueId zero;
  if (!c.has(3)) {
    zero = c.scalar(c.dtype(weights), static_cast<double>(1 << (bits - 1)));
  } else if (real_zero) {
    check_shape(c, c.input(3), {n, blocks}, "zero_points");
    zero = c.cast(c.reshape(c.input(3), {n, blocks}), DType::f32);
  } else {
    const int64_t row = (blocks * bits + 7) / 8;
    check_shape(c, c.input(3), {n, row}, "zero_points");
    zero = first_of_last_axis(c, unpack_rows(c, c.input(3), bits, n, row, is_narrow(3)), blocks);
    zero = c.cast(zero, c.dtype(weights));
  }
  if (by_position) {
    // Each position of K names its block.
    const ValueId group = c.reshape(c.input(4), {product(c.shape(c.input(4)))});
    const auto of_position = [&](ValueId parameter) {
      if (c.rank(parameter) == 0) return parameter;
      return first_of_last_axis(c, c.add(ops::Gather{1}, {parameter, group}), k);
    };
    weights = dequantize(c, weights, of_position(scales), of_position(zero), c.dtype(a));
  } else {
    weights = dequantize(c, weights, scales, zero, c.dtype(a), 1, block);
  }
  const ValueId rounded = rounded_activations(c, a, block, k);
  return {biased(c, inner_matmul(c, ops::MatMul{false, true}, {rounded, weights}), 5)};
}

// Dettmers et al., "QLoRA", 2023: quantiles of the normal distribution.
constexpr std::array<float, 16> normal_float = {
    -1.0F,       -0.69619280F, -0.52507305F, -0.39491749F, -0.28444138F, -0.18477343F, -0.09105004F, 0.0F,
    0.07958030F, 0.16093020F,  0.24611230F,  0.33791524F,  0.44070983F,  0.56261700F,  0.72295684F,  1.0F};
// A sign, two bits of exponent and one of mantissa, scaled to 1.
constexpr std::array<float, 16> float4 = {
    0.0F,  5.208333333e-03F,  0.66666667F,  1.0F,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
    -0.0F, -5.208333333e-03F, -0.66666667F, -1.0F, -0.33333333F, -0.5F, -0.16666667F, -0.25F};

Values matmul_bnb4(ConvertContext& c) {
  const int64_t n = positive_attribute(c, "N"), k = positive_attribute(c, "K");
  const int64_t block = positive_attribute(c, "block_size"), kind = c.int_attribute("quant_type");
  if (kind != 0 && kind != 1) c.invalid(fmt::format("quant_type is {}, not 0 (FP4) or 1 (NF4)", kind));
  const int64_t count = n * k, blocks = (count + block - 1) / block;
  check_shape(c, c.input(1), {(count + 1) / 2}, "B");
  check_shape(c, c.input(2), {blocks}, "absmax");
  const auto& table = kind == 1 ? normal_float : float4;
  const ValueId values = c.add_constant(Tensor::of(DType::f32, {16}, std::vector<float>(table.begin(), table.end())));
  const ValueId codes = unpack(c, c.reshape(c.input(1), {(count + 1) / 2}), 4, true);
  const ValueId weights = c.add(ops::Gather{0}, {values, c.cast(codes, DType::i32)});
  const ValueId scale = c.cast(c.reshape(c.input(2), {blocks}), DType::f32);
  const ValueId whole = first_of_last_axis(c, weights, count);
  const ValueId scaled = c.reshape(dequantize(c, whole, scale, no_value, DType::f32, 0, block), {n, k});
  const bool transposed = c.int_attribute("transB", 1) != 0;
  const ValueId b = c.cast(transposed ? scaled : c.reshape(scaled, {k, n}), c.dtype(c.input(0)));
  return c.result(ops::MatMul{false, transposed}, {c.input(0), b});
}

Values gather_block_quantized(ConvertContext& c) {
  const int64_t bits = c.int_attribute("bits", 4), block = positive_attribute(c, "block_size", 128);
  ValueId data = c.input(0), scales = c.input(2), zero = c.input_or_none(3);
  const bool bytes = c.dtype(data) == DType::u8;
  if (bytes && bits != 2 && bits != 4 && bits != 8) c.invalid(fmt::format("bits is {}, not 2, 4 or 8", bits));
  const int64_t rank = c.rank(data);
  const int64_t gather_axis = c.axis(c.int_attribute("gather_axis", 0), rank);
  const int64_t block_axis = c.axis(c.int_attribute("quantize_axis", 1), rank);
  if (c.rank(scales) != rank || (zero != no_value && c.rank(zero) != rank))
    c.invalid(fmt::format("the data has {} axes, the scales {}", rank, c.rank(scales)));
  const bool separate = gather_axis != block_axis, has_bytes = gather_axis != rank - 1;
  // Packed elements are gathered as the bytes that they are in, which are taken apart then.
  const DType type = c.dtype(data);
  const std::optional<int64_t> row = c.dim(data, rank - 1).as_constant();
  const bool as_bytes = has_bytes && is_packed(type) && c.is_constant(data) && row && *row * bit_width(type) % 8 == 0;
  if (as_bytes) {
    data = c.add(ops::ReadBytesAs{DType::u8}, {data});
    if (zero != no_value) zero = c.cast(zero, is_signed(type) ? DType::i8 : DType::u8);
  }
  const int64_t packed_bits = as_bytes ? bit_width(type) : bytes ? bits : 8;
  const auto steps = [&](ValueId packed) {
    const ValueId codes = unpack(c, packed, packed_bits);
    if (!as_bytes || !is_signed(type)) return codes;
    const double half = 1 << (packed_bits - 1);
    const ValueId moved = c.cast(c.add(F::bitwise_xor, {codes, c.scalar(DType::u8, half)}), DType::i8);
    return c.add(F::sub, {moved, c.scalar(DType::i8, half)});
  };
  if (!has_bytes) data = steps(data);
  if (zero != no_value && bytes && bits < 8)
    zero = first_of_last_axis(c, unpack(c, zero, bits), c.dim(scales, rank - 1));
  const auto picked = [&](ValueId id) {
    if (id == no_value || (c.dim(id, gather_axis) == Dim(1) && c.dim(data, gather_axis) != Dim(1))) return id;
    return c.add(ops::Gather{gather_axis}, {id, c.input(1)});
  };
  // Gathering first reads few rows; along the axis of the blocks it would tear them apart.
  int64_t axis = block_axis;
  if (separate) {
    const ValueId rows = picked(data);
    const ValueId of_scales = picked(scales), of_zero = picked(zero);
    if (c.rank(of_scales) == c.rank(rows)) {
      data = rows, scales = of_scales, zero = of_zero;
      if (axis > gather_axis) axis += c.rank(data) - rank;
    } else {
      c.unsupported("one scale for all rows of a table with indices of another rank than 1");
    }
  }
  if (has_bytes) data = steps(data);
  if (zero == no_value && bytes) zero = c.scalar(DType::u8, static_cast<double>(1 << (bits - 1)));
  const ValueId weights = dequantize(c, data, scales, zero, c.dtype(scales), axis, block);
  return {separate ? weights : c.add(ops::Gather{gather_axis}, {weights, c.input(1)})};
}

constexpr Converter microsoft_weights_table[] = {
    {"GatherBlockQuantized", gather_block_quantized},
    {"MatMulBnb4", matmul_bnb4},
    {"MatMulNBits", matmul_nbits},
};

}  // namespace

std::span<const Converter> microsoft_weight_converters() {
  return microsoft_weights_table;
}

}  // namespace camshaft::onnx

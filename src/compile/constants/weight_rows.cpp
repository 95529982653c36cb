#include "compile/constants/weight_rows.h"

#include <fmt/format.h>

#include <cstring>
#include <tuple>

#include "base/divide_up.h"
#include "compile/constants/layout_text.h"

namespace camshaft {

namespace {

constexpr int64_t row_alignment = 16;  // bytes

constexpr auto packed_numbers = [](auto& w, auto&& number) {
  number("rows=", w.rows);
  number(" taps=", w.taps);
  number(" channels=", w.channels);
  number(" transposed=", w.is_transposed);
};

/// Calls visit(element of the model's tensor, element of the packed one) for each.
template <class Visit>
void for_elements(const WeightRows& w, Visit visit) {
  const int64_t row = w.is_transposed ? 1 : w.channels * w.taps, channel = w.is_transposed ? w.rows : w.taps;
  for (int64_t r = 0; r < w.rows; ++r)
    for (int64_t t = 0; t < w.taps; ++t)
      for (int64_t c = 0; c < w.channels; ++c)
        visit(static_cast<size_t>(r * row + c * channel + t), static_cast<size_t>(r * w.pitch + t * w.channels + c));
}

template <class T>
void copy_elements(const WeightRows& w, const std::byte* from, std::byte* to, bool packing) {
  const auto* source = reinterpret_cast<const T*>(from);
  auto* target = reinterpret_cast<T*>(to);
  for_elements(w, [&](size_t raw, size_t packed) {
    if (packing) {
      target[packed] = source[raw];
    } else {
      target[raw] = source[packed];
    }
  });
}

void copy(const WeightRows& w, DType dtype, const std::byte* from, std::byte* to, bool packing) {
  switch (bit_width(dtype)) {
    case 32:
      return copy_elements<uint32_t>(w, from, to, packing);
    case 16:
      return copy_elements<uint16_t>(w, from, to, packing);
    case 8:
      return copy_elements<uint8_t>(w, from, to, packing);
    default:
      throw Error(ErrorCode::internal, fmt::format("weights of {} have no rows", to_string(dtype)));
  }
}

size_t bytes_of(const WeightRows& w, DType dtype) {
  return byte_size(dtype, w.held_rows() * w.pitch);
}

}  // namespace

WeightRows::WeightRows(int64_t rows, int64_t taps, int64_t channels, bool is_transposed, DType dtype)
    : rows(rows), taps(taps), channels(channels), is_transposed(is_transposed) {
  const int64_t elements = row_alignment * 8 / bit_width(dtype);
  pitch = (taps * channels + elements - 1) / elements * elements;
}

int64_t WeightRows::held_rows() const {
  // Of fewer they would be more than three per cent.
  constexpr int64_t many = 1024, at_once = 32;
  return rows < many ? rows : round_up(rows, at_once);
}

std::span<const std::byte> pack_weight_rows(const RegionView& region, size_t i, const WeightRows& layout,
                                            PackedConstants& constants) {
  const Value& value = region.graph.value(region.node.inputs[i]);
  const DType dtype = value.type.dtype;
  return constants.get(value.name, layout_text(packed_numbers, layout), *value.constant, bytes_of(layout, dtype),
                       [&](const Tensor& raw, std::byte* out) { copy(layout, dtype, raw.data(), out, true); });
}

Tensor unpack_weight_rows(const PackedConstant& packed, DType dtype, const Dims& dims) {
  WeightRows named(0, 0, 0, false, DType::f32);
  if (!read_layout_text(packed.layout, packed_numbers, named)) return {};
  const auto [rows, taps, channels] = std::tuple(named.rows, named.taps, named.channels);
  constexpr int64_t most = int64_t{1} << 40;
  const bool sane = rows > 0 && taps > 0 && channels > 0 && rows < most && taps < most / rows &&
                    channels < most / rows / taps && rows * taps * channels == element_count(dims) &&
                    !(named.is_transposed && taps != 1) &&
                    (bit_width(dtype) == 8 || bit_width(dtype) == 16 || bit_width(dtype) == 32);
  if (!sane) throw_misfit(packed, dims);
  const WeightRows layout(rows, taps, channels, named.is_transposed, dtype);
  if (packed.bytes.size() != bytes_of(layout, dtype)) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  copy(layout, dtype, packed.bytes.data(), raw.mutable_data(), false);
  return raw;
}

}  // namespace camshaft

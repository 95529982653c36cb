#include "compile/weight_rows.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>

namespace camshaft {

namespace {

constexpr int64_t row_alignment = 16;  // bytes

std::string layout_text(const WeightRows& w) {
  return fmt::format("rows={} taps={} channels={} transposed={}", w.rows, w.taps, w.channels, w.is_transposed ? 1 : 0);
}

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
    default:
      throw Error(ErrorCode::internal, fmt::format("weights of {} have no rows", to_string(dtype)));
  }
}

size_t bytes_of(const WeightRows& w, DType dtype) {
  return byte_size(dtype, w.rows * w.pitch);
}

}  // namespace

WeightRows::WeightRows(int64_t rows, int64_t taps, int64_t channels, bool is_transposed, DType dtype)
    : rows(rows), taps(taps), channels(channels), is_transposed(is_transposed) {
  const int64_t elements = row_alignment * 8 / bit_width(dtype);
  pitch = (taps * channels + elements - 1) / elements * elements;
}

std::span<const std::byte> pack_weight_rows(const RegionView& region, size_t i, const WeightRows& layout,
                                            PackedConstants& constants) {
  const Value& value = region.graph.value(region.node.inputs[i]);
  const DType dtype = value.type.dtype;
  return constants.get(value.name, layout_text(layout), *value.constant, bytes_of(layout, dtype),
                       [&](const Tensor& raw, std::byte* out) { copy(layout, dtype, raw.data(), out, true); });
}

Tensor unpack_weight_rows(const PackedConstant& packed, DType dtype, const Dims& dims) {
  int64_t rows = 0, taps = 0, channels = 0;
  int transposed = 0;
  if (std::sscanf(packed.layout.c_str(), "rows=%ld taps=%ld channels=%ld transposed=%d", &rows, &taps, &channels,
                  &transposed) != 4)
    return {};
  constexpr int64_t most = int64_t{1} << 40;
  const bool sane = rows > 0 && taps > 0 && channels > 0 && rows < most && taps < most / rows &&
                    channels < most / rows / taps && rows * taps * channels == element_count(dims) &&
                    !(transposed && taps != 1) && (bit_width(dtype) == 16 || bit_width(dtype) == 32);
  if (sane) {
    const WeightRows layout(rows, taps, channels, transposed != 0, dtype);
    if (packed.bytes.size() == bytes_of(layout, dtype)) {
      Tensor raw(dtype, dims);
      copy(layout, dtype, packed.bytes.data(), raw.mutable_data(), false);
      return raw;
    }
  }
  throw Error(ErrorCode::corrupt_engine, fmt::format("constant '{}': its packed layout '{}' does not fit its shape {}",
                                                     packed.constant, packed.layout, to_string(dims)));
}

}  // namespace camshaft

#include "backends/cpu/tactics/integer_weights.h"

#include "compile/constants/layout_text.h"

namespace camshaft::cpu {

namespace {

constexpr auto integer_numbers = [](auto& w, auto&& number) {
  number("int8 groups=", w.groups);
  number(" columns=", w.columns);
  number(" taps=", w.taps);
  number(" depth=", w.depth);
  number(" piece=", w.piece);
  number(" matrix=", w.matrix);
  number(" width=", w.layout.width);
  number(" lanes=", w.layout.lanes);
};

}  // namespace

const std::byte* packed_integer_weights(const RegionView& region, size_t i, const Int8Weights& w,
                                        PackedConstants& constants) {
  const Value& value = region.graph.value(region.node.inputs[i]);
  const bool flip = value.type.dtype == DType::u8;
  return constants
      .get(value.name, layout_text(integer_numbers, w), *value.constant, static_cast<size_t>(w.bytes()),
           [&](const Tensor& raw, std::byte* out) {
             pack_int8(w, reinterpret_cast<const uint8_t*>(raw.data()), flip, out);
           })
      .data();
}

Tensor unpack_integer_weights(const PackedConstant& packed, DType dtype, const Dims& dims) {
  Int8Weights w;
  if (!read_layout_text(packed.layout, integer_numbers, w)) return {};
  const auto fits = [](int64_t size) { return size >= 0 && size < int64_t{1} << 40; };
  const bool sane = (dtype == DType::i8 || dtype == DType::u8) && fits(w.groups) && fits(w.columns) && fits(w.taps) &&
                    fits(w.depth) && w.layout.has_possible_panels();
  if (!sane) throw_misfit(packed, dims);
  // One after the other, for none of the products may overflow.
  int64_t left = element_count(dims);
  for (const int64_t size : {w.groups, w.columns, w.taps, w.depth}) {
    if (size == 0 || left % size != 0) throw_misfit(packed, dims);
    left /= size;
  }
  if (w.piece < 0 || w.piece > w.k() || (w.piece == 0 ? w.k() > 0 : w.k() % w.piece != 0)) throw_misfit(packed, dims);
  w.layout.k = w.quads();
  w.layout.n = w.columns;
  if (left != 1 || packed.bytes.size() != static_cast<size_t>(w.bytes())) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_int8(w, packed.bytes.data(), dtype == DType::u8, reinterpret_cast<uint8_t*>(raw.mutable_data()));
  return raw;
}

}  // namespace camshaft::cpu

#include "compile/constants/step_fragments.h"

#include <cstring>

#include "compile/constants/layout_text.h"
#include "ir/ops/weight_only.h"

namespace camshaft {

namespace {

constexpr int64_t tile_columns = StepFragments::tile_columns;

constexpr auto fragment_numbers = [](auto& w, auto&& number) {
  number("fragments bits=", w.bits);
  number(" k=", w.k);
  number(" n=", w.n);
  number(" transposed=", w.transposed);
};

constexpr auto parameter_numbers = [](auto& w, auto&& number) {
  number("fragment_parameters blocks=", w.blocks);
  number(" pitch=", w.pitch);
  number(" n=", w.n);
  number(" transposed=", w.transposed);
};

// Which word of a lane's 16 bytes an element of a chunk is in, and the bit it begins at.
struct StepPlace {
  int64_t lane, word;
  int shift;
};

StepPlace place_of(int bits, int64_t column, int64_t k) {
  const int64_t matrix = k / 16, upper_k = k % 16 / 8, pair = k % 8 / 2, second = k % 2, upper_column = column / 8;
  const int64_t lane = column % 8 * 4 + pair;
  if (bits == 8) return {lane, 2 * matrix + upper_k, static_cast<int>(8 * (2 * upper_column + second))};
  const int64_t in_word = 32 / bits / 8;  // matrices
  const int64_t fragment = 4 * (matrix % in_word) + upper_column + 2 * upper_k;
  return {lane, matrix / in_word, static_cast<int>(bits * fragment + 16 * second)};
}

// Steps are as they are stored: the first element of a byte in its low bits. Moving one up changes its highest bit.
unsigned moved_bit(DType dtype) {
  return is_signed(dtype) ? 1U << (bit_width(dtype) - 1) : 0;
}

/// Calls visit(element of the model's tensor, byte of a word of the packed one, bit of that word) for each.
template <class Visit>
void for_steps(const StepFragments& w, Visit visit) {
  const int64_t chunk = w.chunk(), k_stride = w.transposed ? 1 : w.n, n_stride = w.transposed ? w.k : 1;
  std::vector<StepPlace> places;
  for (int64_t column = 0; column < tile_columns; ++column)
    for (int64_t k = 0; k < chunk; ++k) places.push_back(place_of(w.bits, column, k));
  for (int64_t tile = 0; tile < w.tiles(); ++tile)
    for (int64_t c = 0; c < w.chunks(); ++c) {
      const int64_t first_word = (tile * w.chunks() + c) * (StepFragments::chunk_bytes / 4);
      const int64_t columns = std::min(tile_columns, w.n - tile * tile_columns),
                    depth = std::min(chunk, w.k - c * chunk);
      for (int64_t column = 0; column < columns; ++column) {
        const int64_t first = (tile * tile_columns + column) * n_stride + c * chunk * k_stride;
        const StepPlace* place = &places[static_cast<size_t>(column * chunk)];
        for (int64_t k = 0; k < depth; ++k, ++place)
          visit(first + k * k_stride, first_word + place->lane * 4 + place->word, place->shift);
      }
    }
}

template <int bits>
void pack_fragments(const StepFragments& w, unsigned moved, const std::byte* raw, std::byte* out) {
  constexpr unsigned mask = (1U << bits) - 1;
  auto* words = reinterpret_cast<uint32_t*>(out);
  for_steps(w, [&](int64_t element, int64_t word, int shift) {
    const unsigned byte = std::to_integer<unsigned>(raw[element * bits / 8]);
    words[word] |= ((byte >> (element * bits % 8) & mask) ^ moved) << shift;
  });
}

template <int bits>
void unpack_fragments(const StepFragments& w, unsigned moved, const std::byte* packed, std::byte* raw) {
  constexpr unsigned mask = (1U << bits) - 1;
  const auto* words = reinterpret_cast<const uint32_t*>(packed);
  for_steps(w, [&](int64_t element, int64_t word, int shift) {
    const unsigned step = (words[word] >> shift & mask) ^ moved;
    raw[element * bits / 8] |= static_cast<std::byte>(step << (element * bits % 8));
  });
}

template <class Run>
void with_bits(int bits, Run run) {
  switch (bits) {
    case 2:
      return run(std::integral_constant<int, 2>());
    case 4:
      return run(std::integral_constant<int, 4>());
    case 8:
      return run(std::integral_constant<int, 8>());
    default:
      throw Error(ErrorCode::internal, "steps of other widths than 2, 4 and 8 bits");
  }
}

/// Calls visit(element of the model's tensor, element of the packed one) for each.
template <class Visit>
void for_parameters(const StepParameters& w, Visit visit) {
  const int64_t block_stride = w.transposed ? 1 : w.n, n_stride = w.transposed ? w.blocks : 1;
  for (int64_t column = 0; column < w.n; ++column)
    for (int64_t block = 0; block < w.blocks; ++block) {
      const int64_t in_tile = column % 8 * 2 + column % tile_columns / 8;
      visit(column * n_stride + block * block_stride,
            (column / tile_columns * w.pitch + block) * tile_columns + in_tile);
    }
}

size_t bytes_of_parameters(const StepParameters& w, DType dtype) {
  return static_cast<size_t>(w.elements()) * (is_floating(dtype) ? static_cast<size_t>(bit_width(dtype)) / 8 : 1);
}

// Of floats, as they are, or of steps and their bytes.
void copy_parameters(const StepParameters& w, DType dtype, const std::byte* from, std::byte* to, bool packing) {
  const int bits = bit_width(dtype);
  if (is_floating(dtype)) {
    const size_t size = static_cast<size_t>(bits) / 8;
    return for_parameters(w, [&](int64_t raw, int64_t packed) {
      const auto source = static_cast<size_t>(packing ? raw : packed),
                 target = static_cast<size_t>(packing ? packed : raw);
      std::memcpy(to + target * size, from + source * size, size);
    });
  }
  const unsigned mask = (1U << bits) - 1, moved = moved_bit(dtype);
  for_parameters(w, [&](int64_t raw, int64_t packed) {
    const auto shift = static_cast<unsigned>(raw * bits % 8);
    if (packing) {
      to[packed] = static_cast<std::byte>((std::to_integer<unsigned>(from[raw * bits / 8]) >> shift & mask) ^ moved);
    } else {
      to[raw * bits / 8] |= static_cast<std::byte>((std::to_integer<unsigned>(from[packed]) ^ moved) << shift);
    }
  });
}

constexpr int64_t most_elements = int64_t{1} << 40;

bool is_matrix_of(const Dims& dims, int64_t k, int64_t n, bool transposed) {
  return k > 0 && n > 0 && k < most_elements / n && dims.size() == 2 && dims[transposed ? 1 : 0] == k &&
         dims[transposed ? 0 : 1] == n;
}

Tensor zeroed(DType dtype, const Dims& dims) {
  Tensor made(dtype, dims);
  std::memset(made.mutable_data(), 0, made.bytes());
  return made;
}

}  // namespace

std::span<const std::byte> pack_steps(const RegionView& region, size_t i, const StepFragments& layout,
                                      PackedConstants& constants) {
  const Value& value = region.graph.value(region.node.inputs[i]);
  return constants.get(value.name, layout_text(fragment_numbers, layout), *value.constant, layout.bytes(),
                       [&](const Tensor& raw, std::byte* out) {
                         with_bits(layout.bits, [&](auto bits) {
                           pack_fragments<bits()>(layout, moved_bit(raw.dtype()), raw.data(), out);
                         });
                       });
}

std::span<const std::byte> pack_step_parameters(const RegionView& region, size_t i, const StepParameters& layout,
                                                PackedConstants& constants) {
  const Value& value = region.graph.value(region.node.inputs[i]);
  const DType dtype = value.type.dtype;
  return constants.get(
      value.name, layout_text(parameter_numbers, layout), *value.constant, bytes_of_parameters(layout, dtype),
      [&](const Tensor& raw, std::byte* out) { copy_parameters(layout, dtype, raw.data(), out, true); });
}

Tensor unpack_step_fragments(const PackedConstant& packed, DType dtype, const Dims& dims) {
  StepParameters parameters;
  if (read_layout_text(packed.layout, parameter_numbers, parameters)) {
    const bool sane = is_matrix_of(dims, parameters.blocks, parameters.n, parameters.transposed) &&
                      parameters.pitch >= parameters.blocks && parameters.pitch < most_elements / parameters.n &&
                      (ops::is_narrow_step(dtype) || dtype == DType::f32 || dtype == DType::f16);
    if (!sane || packed.bytes.size() != bytes_of_parameters(parameters, dtype)) throw_misfit(packed, dims);
    Tensor raw = zeroed(dtype, dims);
    copy_parameters(parameters, dtype, packed.bytes.data(), raw.mutable_data(), false);
    return raw;
  }
  StepFragments layout;
  if (!read_layout_text(packed.layout, fragment_numbers, layout)) return {};
  const bool sane = ops::is_narrow_step(dtype) && bit_width(dtype) == layout.bits &&
                    is_matrix_of(dims, layout.k, layout.n, layout.transposed);
  if (!sane || packed.bytes.size() != layout.bytes()) throw_misfit(packed, dims);
  Tensor raw = zeroed(dtype, dims);
  with_bits(layout.bits, [&](auto bits) {
    unpack_fragments<bits()>(layout, moved_bit(dtype), packed.bytes.data(), raw.mutable_data());
  });
  return raw;
}

}  // namespace camshaft

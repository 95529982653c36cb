#include "onnx/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/text/unicode.h"
#include "onnx/npy_header.h"

namespace camshaft::onnx {

namespace {

struct Spelling {
  DType dtype;
  const char* descr;  // without the byte order
};
constexpr Spelling spellings[] = {{DType::f64, "f8"}, {DType::f32, "f4"}, {DType::f16, "f2"}, {DType::i64, "i8"},
                                  {DType::i32, "i4"}, {DType::i16, "i2"}, {DType::i8, "i1"},  {DType::u64, "u8"},
                                  {DType::u32, "u4"}, {DType::u16, "u2"}, {DType::u8, "u1"},  {DType::boolean, "b1"},
                                  {DType::bf16, "V2"}};

std::optional<DType> find_dtype(std::string_view descr) {
  for (const Spelling& s : spellings)
    if (descr == s.descr) return s.dtype;
  return std::nullopt;
}

// More elements than this have no tensor; their product stays far from overflow.
constexpr int64_t most_elements = INT64_MAX / 64;

// Nullopt where no tensor is so large, be it that it has no elements.
std::optional<int64_t> numpy_element_count(const Dims& dims) {
  int64_t count = 1, without_zeros = 1;
  for (const int64_t size : dims) {
    if (size < 0 || (size > 0 && without_zeros > most_elements / size)) return std::nullopt;
    count *= size;
    without_zeros *= std::max<int64_t>(size, 1);
  }
  return count;
}

// Elements of `width` bytes from column-major into row-major order.
void reorder(const std::byte* source, std::byte* destination, const Dims& dims, size_t width) {
  Dims index(dims.size(), 0);
  const int64_t count = numpy_element_count(dims).value_or(0);
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t axis = 1; axis < dims.size(); ++axis) strides[axis] = strides[axis - 1] * dims[axis - 1];
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = 0;
    for (size_t axis = 0; axis < dims.size(); ++axis) from += index[axis] * strides[axis];
    std::memcpy(destination + static_cast<size_t>(i) * width, source + static_cast<size_t>(from) * width, width);
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++index[axis] < dims[axis]) break;
      index[axis] = 0;
    }
  }
}

std::string utf8_of(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) {
    const bool is_character = c < 0x110000 && (c < 0xd800 || c > 0xdfff);
    append_utf8(out, is_character ? c : U'\ufffd');
  }
  return out;
}

// Strings of fixed length, padded with zeros: 'S' one byte, 'U' four bytes a character.
Tensor parse_strings(std::span<const std::byte> elements, char kind, size_t length, const Dims& dims) {
  Tensor tensor(DType::string, dims);
  auto* const texts = tensor.as_mutable<std::string>();
  const size_t width = length * (kind == 'U' ? 4 : 1);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const std::byte* at = elements.data() + static_cast<size_t>(i) * width;
    if (kind == 'S') {
      texts[i].assign(reinterpret_cast<const char*>(at), length);
      texts[i].erase(texts[i].find_last_not_of('\0') + 1);
    } else {
      std::u32string text(length, U'\0');
      if (width > 0) std::memcpy(text.data(), at, width);
      text.erase(text.find_last_not_of(U'\0') + 1);
      texts[i] = utf8_of(text);
    }
  }
  return tensor;
}

}  // namespace

Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name) {
  const NpyHeader header = parse_npy_header(bytes, name);
  const auto fail = [&](const std::string& why) -> Error { return {ErrorCode::io, name + " " + why}; };
  if (header.descr.size() < 2) throw fail("has a malformed header: no dtype");
  const char order = header.descr[0];
  const std::string kind = header.descr.substr(order == '<' || order == '|' || order == '>' || order == '=' ? 1 : 0);
  if (order == '>') throw fail(fmt::format("has big-endian elements ('{}'); save it as '<{}'", header.descr, kind));
  if (kind[0] == 'O') throw fail("holds Python objects, which cannot be read; save numbers or strings of dtype 'U'");

  size_t width = 0;
  const auto dtype = find_dtype(kind);
  size_t length = 0;
  if (dtype) {
    width = static_cast<size_t>(bit_width(*dtype)) / 8;
  } else if (kind[0] == 'S' || kind[0] == 'U') {
    const auto [end, error] = std::from_chars(kind.data() + 1, kind.data() + kind.size(), length);
    if (error != std::errc() || end != kind.data() + kind.size() || length > (1u << 30))
      throw fail(fmt::format("has the malformed dtype '{}'", header.descr));
    width = kind[0] == 'U' ? length * 4 : length;
  } else {
    throw fail(fmt::format("has the dtype '{}', which no tensor has", header.descr));
  }

  // Checked against the bytes that are there before anything is allocated for them.
  const auto elements = bytes.subspan(header.size);
  const std::optional<int64_t> count = numpy_element_count(header.dims);
  if (!count || static_cast<unsigned __int128>(*count) * width != elements.size())
    throw fail(fmt::format("is damaged: shape {} of '{}' does not take the {} bytes that follow the header",
                           to_string(header.dims), header.descr, elements.size()));
  std::vector<std::byte> row_major;
  auto ordered = elements;
  if (header.fortran_order && header.dims.size() > 1 && !elements.empty()) {
    row_major.resize(elements.size());
    reorder(elements.data(), row_major.data(), header.dims, width);
    ordered = row_major;
  }
  if (!dtype) {
    // An array of empty strings takes no bytes however many there are.
    if (*count > (1 << 30)) throw fail(fmt::format("has {} strings, too many", *count));
    return parse_strings(ordered, kind[0], length, header.dims);
  }
  Tensor tensor(*dtype, header.dims);
  if (!ordered.empty()) std::memcpy(tensor.mutable_data(), ordered.data(), ordered.size());
  if (*dtype == DType::boolean)
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.as_mutable<uint8_t>()[i] = tensor.as<uint8_t>()[i] != 0;
  return tensor;
}

}  // namespace camshaft::onnx

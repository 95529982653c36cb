#include "tools/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "camshaft/error.hpp"
#include "tools/npy_header.h"
#include "tools/tensor_text.h"
#include "tools/utf8.h"

namespace camshaft::tools {

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
std::optional<int64_t> element_count(const Dims& dims) {
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
  const int64_t count = element_count(dims).value_or(0);
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

// Strings of fixed length, padded with zeros: 'S' one byte, 'U' four bytes a character.
Tensor parse_strings(std::span<const std::byte> elements, char kind, size_t length, const Dims& dims) {
  Tensor tensor(DType::string, dims);
  const size_t width = length * (kind == 'U' ? 4 : 1);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const std::byte* at = elements.data() + static_cast<size_t>(i) * width;
    if (kind == 'S') {
      std::string text(reinterpret_cast<const char*>(at), length);
      text.erase(text.find_last_not_of('\0') + 1);
      tensor.set_text(i, text);
    } else {
      std::u32string text(length, U'\0');
      if (width > 0) std::memcpy(text.data(), at, width);
      text.erase(text.find_last_not_of(U'\0') + 1);
      tensor.set_text(i, to_utf8(text));
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
  const std::optional<int64_t> count = element_count(header.dims);
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

std::string npy_header(DType dtype, const Dims& dims, size_t string_length) {
  std::string descr = dtype == DType::string ? fmt::format("<U{}", std::max<size_t>(string_length, 1)) : "";
  for (const Spelling& s : spellings)
    if (s.dtype == dtype && dtype != DType::bf16) descr = fmt::format("{}{}", s.descr[1] == '1' ? '|' : '<', s.descr);
  if (descr.empty()) throw Error(ErrorCode::internal, fmt::format("NumPy has no dtype {}", camshaft::to_string(dtype)));
  std::string shape;
  for (const int64_t size : dims) shape += fmt::format("{}, ", size);
  if (dims.size() > 1) shape.resize(shape.size() - 2);
  if (dims.size() == 1) shape.pop_back();
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  text.resize((10 + text.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  text += '\n';
  std::string header = "\x93NUMPY";
  header += '\x01';
  header += '\0';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

NpyContent npy_content(const Tensor& tensor) {
  if (tensor.dtype() != DType::string) return {npy_header(tensor.dtype(), tensor.dims()), tensor.span(), {}};
  std::vector<std::u32string> texts;
  size_t longest = 1;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    texts.push_back(from_utf8(tensor.text(i)));
    longest = std::max(longest, texts.back().size());
  }
  NpyContent content{npy_header(DType::string, tensor.dims(), longest), {}, {}};
  for (std::u32string& text : texts) {
    text.resize(longest, U'\0');
    content.storage += text;
  }
  return content;
}

Tensor to_numpy(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  if (is_floating(dtype) && (dtype == DType::bf16 || bit_width(dtype) < 16)) return tensor.converted(DType::f32);
  if (!is_packed(dtype)) return tensor;
  Tensor wide(is_signed(dtype) ? DType::i8 : DType::u8, tensor.dims());
  const int bits = bit_width(dtype), in_a_byte = 8 / bits, range = 1 << bits;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const int code = (tensor.as<uint8_t>()[i / in_a_byte] >> (i % in_a_byte * bits)) & (range - 1);
    wide.as_mutable<uint8_t>()[i] = static_cast<uint8_t>(is_signed(dtype) && code >= range / 2 ? code - range : code);
  }
  return wide;
}

Tensor from_numpy(const Tensor& array, DType wanted, const std::string& name) {
  if (array.dtype() == wanted) return array;
  if (array.dtype() == DType::f32 && is_floating(wanted) && (wanted == DType::bf16 || bit_width(wanted) < 16))
    return array.converted(wanted);
  if (is_packed(wanted) && is_integer(wanted) && array.dtype() == (is_signed(wanted) ? DType::i8 : DType::u8)) {
    Tensor narrow(wanted, array.dims());
    const int bits = bit_width(wanted), in_a_byte = 8 / bits, range = 1 << bits;
    for (int64_t i = 0; i < array.size(); ++i) {
      const int value = is_signed(wanted) ? array.as<int8_t>()[i] : array.as<uint8_t>()[i];
      const int low = is_signed(wanted) ? -range / 2 : 0;
      if (value < low || value >= low + range)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{} has the value {}, which {} cannot hold", name, value, camshaft::to_string(wanted)));
      narrow.as_mutable<uint8_t>()[i / in_a_byte] |=
          static_cast<uint8_t>((value & (range - 1)) << (i % in_a_byte * bits));
    }
    return narrow;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} has dtype {}, but {} is needed", name, camshaft::to_string(array.dtype()),
                          camshaft::to_string(wanted)));
}

}  // namespace camshaft::tools

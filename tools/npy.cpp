#include "tools/npy.h"

#include <fmt/format.h>

#include <algorithm>

#include "camshaft/error.hpp"
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

}  // namespace

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

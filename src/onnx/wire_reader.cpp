#include "onnx/wire_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <protozero/varint.hpp>

#include "base/error.h"

namespace camshaft::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "protobuf and ONNX data are little-endian");

const char* name_of(WireType type) {
  switch (type) {
    case WireType::varint:
      return "a varint";
    case WireType::fixed64:
      return "8 bytes";
    case WireType::fixed32:
      return "4 bytes";
    case WireType::length_delimited:
      return "a length and bytes";
  }
  return "?";
}

}  // namespace

WireReader::WireReader(const WireSource& source, std::span<const std::byte> message, const char* message_name)
    : source_(&source),
      message_name_(message_name),
      position_(message.data()),
      end_(message.data() + message.size()),
      field_start_(message.data()) {}

void WireReader::fail(std::string_view problem) const {
  throw Error(ErrorCode::invalid_model, fmt::format("{}: {} (in {}, at byte {})", source_->name, problem, message_name_,
                                                    field_start_ - source_->bytes.data()));
}

uint64_t WireReader::decode_varint() {
  const char* data = reinterpret_cast<const char*>(position_);
  try {
    const uint64_t value = protozero::decode_varint(&data, reinterpret_cast<const char*>(end_));
    position_ = reinterpret_cast<const std::byte*>(data);
    return value;
  } catch (const protozero::end_of_buffer_exception&) {
    fail(fmt::format("truncated at byte {}: a number is cut off", end_ - source_->bytes.data()));
  } catch (const protozero::exception&) {
    fail("damaged: a number is longer than 64 bits");
  }
}

std::span<const std::byte> WireReader::take(uint64_t size) {
  const auto left = static_cast<uint64_t>(end_ - position_);
  if (size > left)
    fail(fmt::format("truncated at byte {}: field {} needs {} bytes, {} are left", end_ - source_->bytes.data(), field_,
                     size, left));
  const std::span<const std::byte> taken(position_, size);
  position_ += size;
  return taken;
}

void WireReader::expect(WireType type) const {
  if (wire_type_ != type)
    fail(fmt::format("damaged: field {} holds {} where the format has {}", field_, name_of(wire_type_), name_of(type)));
}

bool WireReader::next() {
  if (position_ == end_) return false;
  field_start_ = position_;
  const uint64_t key = decode_varint();
  const uint64_t type = key & 7;
  if (key >> 3 == 0 || key >> 32 != 0) fail(fmt::format("damaged: {} is not a field number", key >> 3));
  if (type != 0 && type != 1 && type != 2 && type != 5) fail(fmt::format("damaged: unknown wire type {}", type));
  field_ = static_cast<uint32_t>(key >> 3);
  wire_type_ = static_cast<WireType>(type);
  return true;
}

uint64_t WireReader::varint() {
  expect(WireType::varint);
  return decode_varint();
}

float WireReader::float32() {
  expect(WireType::fixed32);
  float value;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::span<const std::byte> WireReader::bytes() {
  expect(WireType::length_delimited);
  return take(decode_varint());
}

std::string WireReader::string() {
  const auto view = bytes();
  return {reinterpret_cast<const char*>(view.data()), view.size()};
}

WireReader WireReader::message(const char* message_name) {
  return {*source_, bytes(), message_name};
}

void WireReader::skip() {
  switch (wire_type_) {
    case WireType::varint:
      decode_varint();
      break;
    case WireType::fixed64:
      take(8);
      break;
    case WireType::fixed32:
      take(4);
      break;
    case WireType::length_delimited:
      take(decode_varint());
      break;
  }
}

template <class T>
void WireReader::append_fixed(std::vector<T>& out, WireType single) {
  std::span<const std::byte> data;
  if (wire_type_ == WireType::length_delimited) {
    data = bytes();
    if (data.size() % sizeof(T) != 0)
      fail(fmt::format("damaged: field {} holds {} bytes, which is not a whole number of {}-byte elements", field_,
                       data.size(), sizeof(T)));
  } else {
    expect(single);
    data = take(sizeof(T));
  }
  if (data.empty()) return;
  const size_t count = out.size();
  out.resize(count + data.size() / sizeof(T));
  std::memcpy(out.data() + count, data.data(), data.size());
}

template <class T>
void WireReader::append_varints(std::vector<T>& out) {
  if (wire_type_ != WireType::length_delimited) {
    out.push_back(static_cast<T>(varint()));
    return;
  }
  WireReader packed = message(message_name_);
  packed.field_start_ = field_start_;
  // The last byte of a varint is the one without the high bit: counting them sizes the vector exactly.
  const auto count =
      std::count_if(packed.position_, packed.end_, [](std::byte b) { return (b & std::byte{0x80}) == std::byte{0}; });
  if (out.empty()) out.reserve(static_cast<size_t>(count));
  while (packed.position_ != packed.end_) out.push_back(static_cast<T>(packed.decode_varint()));
}

void WireReader::append(std::vector<float>& out) {
  append_fixed(out, WireType::fixed32);
}
void WireReader::append(std::vector<double>& out) {
  append_fixed(out, WireType::fixed64);
}
void WireReader::append(std::vector<int32_t>& out) {
  append_varints(out);
}
void WireReader::append(std::vector<int64_t>& out) {
  append_varints(out);
}
void WireReader::append(std::vector<uint64_t>& out) {
  append_varints(out);
}

}  // namespace camshaft::onnx

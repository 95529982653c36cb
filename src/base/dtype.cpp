#include "base/dtype.h"

#include <array>
#include <string>

#include "base/error.h"

namespace camshaft {
namespace {

enum class Class : uint8_t { floating, signed_integer, unsigned_integer, other, container };

struct Facts {
  std::string_view name;
  uint8_t bits;  // 0: no fixed size
  Class kind;
};

// In the order of DType.
constexpr std::array<Facts, dtype_count> all_facts = {{
    {"f64", 64, Class::floating},         {"f32", 32, Class::floating},         {"f16", 16, Class::floating},
    {"bf16", 16, Class::floating},        {"f8e4m3", 8, Class::floating},       {"f8e5m2", 8, Class::floating},
    {"f4e2m1", 4, Class::floating},       {"i64", 64, Class::signed_integer},   {"i32", 32, Class::signed_integer},
    {"i16", 16, Class::signed_integer},   {"i8", 8, Class::signed_integer},     {"i4", 4, Class::signed_integer},
    {"u64", 64, Class::unsigned_integer}, {"u32", 32, Class::unsigned_integer}, {"u16", 16, Class::unsigned_integer},
    {"u8", 8, Class::unsigned_integer},   {"u4", 4, Class::unsigned_integer},   {"bool", 8, Class::other},
    {"string", 0, Class::other},          {"f8e4m3fnuz", 8, Class::floating},   {"f8e5m2fnuz", 8, Class::floating},
    {"f8e8m0", 8, Class::floating},       {"i2", 2, Class::signed_integer},     {"u2", 2, Class::unsigned_integer},
    {"seq", 0, Class::container},         {"opt", 0, Class::container},         {"map", 0, Class::container},
}};

const Facts& facts(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  if (index >= all_facts.size()) throw Error(ErrorCode::internal, "there is no dtype number " + std::to_string(index));
  return all_facts[index];
}

}  // namespace

std::string_view to_string(DType dtype) {
  return facts(dtype).name;
}

DType parse_dtype(std::string_view name) {
  for (size_t i = 0; i < all_facts.size(); ++i)
    if (all_facts[i].name == name) return static_cast<DType>(i);
  std::string known;
  for (const Facts& f : all_facts) known += (known.empty() ? "" : ", ") + std::string(f.name);
  throw Error(ErrorCode::invalid_argument, "unknown dtype '" + std::string(name) + "'; the dtypes are " + known);
}

int bit_width(DType dtype) {
  const Facts& f = facts(dtype);
  if (f.bits == 0)
    throw Error(ErrorCode::internal, "the size of dtype " + std::string(f.name) + " was asked for; it has none");
  return f.bits;
}

bool is_packed(DType dtype) {
  const int bits = facts(dtype).bits;
  return bits != 0 && bits < 8;
}

size_t byte_size(DType dtype, int64_t count) {
  const int bits = bit_width(dtype);
  size_t bytes = 0;
  bool too_large = count < 0;
  if (!too_large && bits < 8) {
    const auto in_a_byte = static_cast<size_t>(8 / bits);
    bytes = static_cast<size_t>(count) / in_a_byte + (static_cast<size_t>(count) % in_a_byte != 0);
  } else if (!too_large) {
    too_large = __builtin_mul_overflow(static_cast<size_t>(count), static_cast<size_t>(bits / 8), &bytes);
  }
  if (too_large) {
    throw Error(ErrorCode::invalid_argument, "a tensor of " + std::to_string(count) + " elements of " +
                                                 std::string(to_string(dtype)) + " has no size that fits in memory");
  }
  return bytes;
}

bool is_floating(DType dtype) {
  return facts(dtype).kind == Class::floating;
}

bool is_integer(DType dtype) {
  const Class kind = facts(dtype).kind;
  return kind == Class::signed_integer || kind == Class::unsigned_integer;
}

bool is_container(DType dtype) {
  return facts(dtype).kind == Class::container;
}

bool holds_objects(DType dtype) {
  return facts(dtype).bits == 0;
}

bool is_byte(DType dtype) {
  return dtype == DType::i8 || dtype == DType::u8;
}

bool is_signed(DType dtype) {
  const Class kind = facts(dtype).kind;
  return kind == Class::floating || kind == Class::signed_integer;
}

}  // namespace camshaft

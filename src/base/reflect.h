// Reflection of plain value structs: a struct lists its fields once, and printing, parsing, equality of text, hashing
// and serialising follow.
//
//   struct Pool {
//     PoolKind kind = PoolKind::max;
//     std::vector<int64_t> kernel;
//     template <class Self, class Visitor>
//     static void reflect(Self& self, Visitor&& visit) {
//       visit("kind", self.kind);
//       visit("kernel", self.kernel);
//     }
//   };
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

namespace camshaft {

/// A struct with a static `reflect(self, visit)`.
template <class T>
concept Reflected = requires(T& value) {
  T::reflect(value, [](std::string_view, auto&) {});
};

/// Printable names of an enum used as a field, in the order of its values: specialise with
/// `static constexpr std::string_view values[] = {...};`.
template <class E>
struct EnumNames;

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires {
  EnumNames<E>::values[0];
};

}  // namespace camshaft

// Symbolic tensor dimensions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace camshaft {

/// Values of symbols, by name. Symbols stand for sizes and are never negative.
using SymbolBindings = std::map<std::string, int64_t, std::less<>>;

/// An integer expression over named symbols, kept in normal form so that equal dims compare equal.
///
/// The normal form is a polynomial: a constant plus terms `coefficient × product of atoms`, ordered by degree and then
/// by name. An atom is a symbol or one of floor_div, min, max, broadcast of two dims that could not be simplified
/// further; mod and ceil_div are expressed through floor_div. Constants take no allocation.
class Dim {
 public:
  Dim(int64_t value = 0) : constant_(value) {}  // NOLINT: implicit on purpose, a dim is most often a number
  static Dim symbol(std::string_view name);

  bool is_constant() const { return terms_ == nullptr; }
  /// The value of a constant dim; throws Error(internal) for a symbolic one.
  int64_t value() const;
  std::optional<int64_t> as_constant() const;
  /// The name, if the whole expression is one symbol.
  std::optional<std::string> as_symbol() const;

  /// Throws Error(invalid_argument) when a symbol is not bound, on overflow and on division by zero.
  int64_t evaluate(const SymbolBindings& bindings) const;
  /// Replaces symbols by expressions.
  Dim substitute(const std::map<std::string, Dim, std::less<>>& replacements) const;
  void collect_symbols(std::vector<std::string>& names) const;

  /// Bounds over all non-negative symbol values; nullopt where there is none.
  std::optional<int64_t> lower_bound() const;
  std::optional<int64_t> upper_bound() const;

  /// "2*batch*seq + floor_div(h, 2) - 1"; parse() is the inverse and throws Error(invalid_argument).
  std::string str() const;
  static Dim parse(std::string_view text);

  bool operator==(const Dim& other) const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim floor_div(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  /// NumPy broadcasting of two dims: b where a is 1, else a. The two must agree or be 1 when evaluated.
  friend Dim broadcast(const Dim& a, const Dim& b);

 private:
  struct Atom;
  struct Term;
  struct Terms;
  friend struct DimBuilder;
  int64_t constant_ = 0;
  std::shared_ptr<const Terms> terms_;  // null for constants
};

Dim ceil_div(const Dim& a, const Dim& b);
/// a - b * floor_div(a, b)
Dim mod(const Dim& a, const Dim& b);

}  // namespace camshaft

// What is inside a Dim. Only the dim_*.cpp files include this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/dim.h"

namespace camshaft {

__extension__ using Int128 = __int128;

enum class AtomKind { symbol, floor_div, min, max, broadcast };

// Engine files carry expressions that nobody vouches for, and products of sums grow exponentially: an expression beyond
// these is refused. What parses within them and what arithmetic may build is the same set, so an engine reads back.
constexpr size_t max_dim_terms = 1000;
constexpr size_t max_dim_degree = 64;
constexpr size_t max_dim_text = 65536;
constexpr int max_dim_functions = 256;
constexpr int max_dim_depth = 64;

/// All values that an expression can take; nullopt: unbounded.
struct DimInterval {
  std::optional<int64_t> low, high;
};

struct Dim::Atom {
  AtomKind kind = AtomKind::symbol;
  std::string name;      // of a symbol
  Dim a, b;              // of the others
  std::string text;      // canonical: atoms are equal when their texts are
  int depth = 0;         // of nested functions; 0 for symbols
  int functions = 0;     // in the whole tree
  DimInterval interval;  // cached: computing it anew at each use is exponential in the depth
};

struct Dim::Term {
  int64_t coefficient = 0;
  std::vector<std::shared_ptr<const Atom>> factors;  // sorted by text, repeated for powers
};

struct Dim::Terms {
  std::vector<Term> list;  // largest monomial first, no zero coefficients
  std::string text;
  int depth = 0;
  int functions = 0;
};

// Builds normal forms; the only code that sees inside a Dim besides its members.
struct DimBuilder {
  using Atom = Dim::Atom;
  using Term = Dim::Term;
  using Factors = std::vector<std::shared_ptr<const Atom>>;

  static const std::vector<Term>& terms(const Dim& d);
  static int64_t constant(const Dim& d) { return d.constant_; }
  /// The same terms with another constant.
  static Dim with_constant(Dim d, int64_t constant);
  /// The terms and the constant as a last term without factors.
  static std::vector<Term> all_terms(const Dim& d);

  /// Graded lexicographic: a monomial order, which exact polynomial division needs. Negative: a comes first.
  static int compare(const Factors& a, const Factors& b);
  /// Sorts and merges terms in any order; those without factors count as constants. Throws when it grows too large.
  static Dim make(int64_t constant, std::vector<Term> list);
  static Dim of_function(AtomKind kind, const Dim& a, const Dim& b);
  static Dim of_atom(Atom atom);
  /// The atom, if that is all there is.
  static const Atom* single_atom(const Dim& d);
  /// The atom of a term, if the term is its multiple.
  static const Atom* linear_atom(const Term& t) { return t.factors.size() == 1 ? t.factors[0].get() : nullptr; }

  static DimInterval interval(const Dim& d);
  static DimInterval interval(const Atom& atom);
};

namespace dim_detail {

/// Throw Error(invalid_argument) on overflow and division by zero.
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);
int64_t floor_div_int(int64_t a, int64_t b);

const char* function_name(AtomKind kind);
/// ASCII letters, digits and _ . @ :
bool plain_name_char(char c);
/// Can stand in an expression without quotes.
bool plain_name(std::string_view name);

/// A simplification that may overflow on the way: nullopt then, and the expression stays as it is.
template <class F>
auto attempt(F f) -> std::optional<decltype(f())> {
  try {
    return f();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace dim_detail
}  // namespace camshaft

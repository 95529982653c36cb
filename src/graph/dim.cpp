#include "graph/dim.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <numeric>

#include "camshaft/error.h"

namespace camshaft {

namespace {

enum class AtomKind { symbol, floor_div, min, max, broadcast };

int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r))
    throw Error(ErrorCode::invalid_argument, "a tensor dimension overflows 64 bits");
  return r;
}
int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r))
    throw Error(ErrorCode::invalid_argument, "a tensor dimension overflows 64 bits");
  return r;
}
int64_t floor_div_int(int64_t a, int64_t b) {
  if (b == 0) throw Error(ErrorCode::invalid_argument, "a tensor dimension is divided by zero");
  if (b == -1) return checked_mul(a, -1);
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

const char* function_name(AtomKind kind) {
  switch (kind) {
    case AtomKind::floor_div:
      return "floor_div";
    case AtomKind::min:
      return "min";
    case AtomKind::max:
      return "max";
    case AtomKind::broadcast:
      return "broadcast";
    case AtomKind::symbol:
      break;
  }
  return "";
}

bool plain_name(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '@' || c == ':';
  });
}

std::string quoted(std::string_view name) {
  std::string out = "'";
  for (char c : name) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

}  // namespace

struct Dim::Atom {
  AtomKind kind = AtomKind::symbol;
  std::string name;  // of a symbol
  Dim a, b;          // of the others
  std::string text;  // canonical: atoms are equal when their texts are
};

struct Dim::Term {
  int64_t coefficient = 0;
  std::vector<std::shared_ptr<const Atom>> factors;  // sorted by text, repeated for powers
};

struct Dim::Terms {
  std::vector<Term> list;  // largest monomial first, no zero coefficients
  std::string text;
};

// Builds normal forms; the only code that sees inside a Dim besides its members.
struct DimBuilder {
  using Atom = Dim::Atom;
  using Term = Dim::Term;
  using Factors = std::vector<std::shared_ptr<const Atom>>;

  // Graded lexicographic: a monomial order, which exact polynomial division needs.
  static int compare(const Factors& a, const Factors& b) {
    if (a.size() != b.size()) return a.size() < b.size() ? 1 : -1;
    for (size_t i = 0; i < a.size(); ++i) {
      const int c = a[i] == b[i] ? 0 : a[i]->text.compare(b[i]->text);
      if (c != 0) return c;
    }
    return 0;
  }

  static const std::vector<Term>& terms(const Dim& d) {
    static const std::vector<Term> none;
    return d.terms_ ? d.terms_->list : none;
  }

  static Dim make(int64_t constant, std::vector<Term> list) {
    std::sort(list.begin(), list.end(), [](const Term& x, const Term& y) { return compare(x.factors, y.factors) < 0; });
    std::vector<Term> merged;
    for (Term& t : list) {
      if (!merged.empty() && compare(merged.back().factors, t.factors) == 0) {
        merged.back().coefficient = checked_add(merged.back().coefficient, t.coefficient);
      } else {
        if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
        merged.push_back(std::move(t));
      }
    }
    if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
    Dim d(constant);
    if (merged.empty()) return d;
    auto shared = std::make_shared<Dim::Terms>();
    shared->list = std::move(merged);
    for (const Term& t : shared->list) append(shared->text, t);
    d.terms_ = std::move(shared);
    return d;
  }

  static void append(std::string& out, const Term& t) {
    const bool first = out.empty();
    if (first) {
      if (t.coefficient < 0) out += "-";
    } else {
      out += t.coefficient < 0 ? " - " : " + ";
    }
    bool star = false;
    if (t.coefficient != 1 && t.coefficient != -1) {
      const std::string digits = std::to_string(t.coefficient);
      out += t.coefficient < 0 ? digits.substr(1) : digits;
      star = true;
    }
    for (const auto& f : t.factors) {
      if (star) out += "*";
      out += f->text;
      star = true;
    }
  }

  static Dim of_atom(Atom atom) {
    if (atom.kind == AtomKind::symbol) {
      atom.text = plain_name(atom.name) ? atom.name : quoted(atom.name);
    } else {
      atom.text = std::string(function_name(atom.kind)) + "(" + atom.a.str() + ", " + atom.b.str() + ")";
    }
    return make(0, {Term{1, {std::make_shared<const Atom>(std::move(atom))}}});
  }
  static Dim of_function(AtomKind kind, const Dim& a, const Dim& b) { return of_atom(Atom{kind, "", a, b, ""}); }

  static const Atom* single_atom(const Dim& d) {
    if (d.constant_ != 0 || !d.terms_ || d.terms_->list.size() != 1) return nullptr;
    const Term& t = d.terms_->list[0];
    return t.coefficient == 1 && t.factors.size() == 1 ? t.factors[0].get() : nullptr;
  }

  // The monomial x / y, if y divides x.
  static bool divide_term(const Term& x, const Term& y, Term& quotient) {
    if (y.coefficient == 0 || x.coefficient % y.coefficient != 0) return false;
    quotient.coefficient = x.coefficient / y.coefficient;
    quotient.factors.clear();
    size_t j = 0;
    for (const auto& f : x.factors) {
      if (j < y.factors.size() && f->text == y.factors[j]->text) {
        ++j;
      } else {
        quotient.factors.push_back(f);
      }
    }
    return j == y.factors.size();
  }

  // p / q by polynomial long division, if it leaves nothing.
  static std::optional<Dim> divide_exactly(Dim p, const Dim& q) {
    const auto leading = [](const Dim& d) { return d.terms_ ? d.terms_->list[0] : Term{d.constant_, {}}; };
    Dim result(0);
    for (int steps = 0; steps < 64; ++steps) {
      if (p.is_constant() && p.constant_ == 0) return result;
      Term t;
      if (!divide_term(leading(p), leading(q), t)) return std::nullopt;
      const Dim piece = t.factors.empty() ? Dim(t.coefficient) : make(0, {t});
      result = result + piece;
      p = p - piece * q;
    }
    return std::nullopt;
  }

  // Bounds of a polynomial from bounds of its atoms; `upper` picks the side.
  static std::optional<int64_t> bound(const Dim& d, bool upper) {
    int64_t total = d.constant_;
    for (const Term& t : terms(d)) {
      const bool want_upper = (t.coefficient > 0) == upper;
      int64_t product = 1;
      bool zero = false, unbounded = false;
      for (const auto& f : t.factors) {
        const auto low = atom_bound(*f, false);
        if (!low || *low < 0) return std::nullopt;  // products of possibly negative atoms: give up
        const auto b = want_upper ? atom_bound(*f, true) : low;
        if (!b) {
          unbounded = true;
        } else if (*b == 0) {
          zero = true;
        } else if (__builtin_mul_overflow(product, *b, &product)) {
          return std::nullopt;
        }
      }
      if (zero) continue;
      if (unbounded) return std::nullopt;
      int64_t scaled;
      if (__builtin_mul_overflow(product, t.coefficient, &scaled) || __builtin_add_overflow(total, scaled, &total))
        return std::nullopt;
    }
    return total;
  }

  static std::optional<int64_t> atom_bound(const Atom& atom, bool upper) {
    if (atom.kind == AtomKind::symbol) return upper ? std::nullopt : std::optional<int64_t>(0);
    const auto a = bound(atom.a, upper), b = bound(atom.b, upper);
    switch (atom.kind) {
      case AtomKind::floor_div: {
        const auto divisor = atom.b.as_constant();
        if (divisor && *divisor > 0) return a ? std::optional<int64_t>(floor_div_int(*a, *divisor)) : std::nullopt;
        const auto low = bound(atom.a, false), blow = bound(atom.b, false);
        if (!low || *low < 0 || !blow || *blow < 0) return std::nullopt;
        return upper ? a : std::optional<int64_t>(0);
      }
      case AtomKind::min:
        if (upper) return a && b ? std::optional<int64_t>(std::min(*a, *b)) : (a ? a : b);
        return a && b ? std::optional<int64_t>(std::min(*a, *b)) : std::nullopt;
      case AtomKind::max:
      case AtomKind::broadcast:
        if (upper) return a && b ? std::optional<int64_t>(std::max(*a, *b)) : std::nullopt;
        if (atom.kind == AtomKind::broadcast) return a && b ? std::optional<int64_t>(std::min(*a, *b)) : std::nullopt;
        return a && b ? std::optional<int64_t>(std::max(*a, *b)) : (a ? a : b);
      case AtomKind::symbol:
        break;
    }
    return std::nullopt;
  }

  template <class Leaf>
  static Dim rebuild(const Dim& d, const Leaf& leaf) {
    Dim total(d.constant_);
    for (const Term& t : terms(d)) {
      Dim product(t.coefficient);
      for (const auto& f : t.factors) product = product * rebuild_atom(*f, leaf);
      total = total + product;
    }
    return total;
  }
  template <class Leaf>
  static Dim rebuild_atom(const Atom& atom, const Leaf& leaf) {
    if (atom.kind == AtomKind::symbol) return leaf(atom.name);
    const Dim a = rebuild(atom.a, leaf), b = rebuild(atom.b, leaf);
    switch (atom.kind) {
      case AtomKind::floor_div:
        return floor_div(a, b);
      case AtomKind::min:
        return min(a, b);
      case AtomKind::max:
        return max(a, b);
      default:
        return broadcast(a, b);
    }
  }

  static int64_t evaluate(const Dim& d, const SymbolBindings& bindings) {
    int64_t total = d.constant_;
    for (const Term& t : terms(d)) {
      int64_t product = t.coefficient;
      for (const auto& f : t.factors) product = checked_mul(product, evaluate_atom(*f, bindings));
      total = checked_add(total, product);
    }
    return total;
  }
  static int64_t evaluate_atom(const Atom& atom, const SymbolBindings& bindings) {
    if (atom.kind == AtomKind::symbol) {
      const auto it = bindings.find(atom.name);
      if (it == bindings.end())
        throw Error(ErrorCode::invalid_argument, "the dimension '" + atom.name + "' has no value yet");
      return it->second;
    }
    const int64_t a = evaluate(atom.a, bindings), b = evaluate(atom.b, bindings);
    switch (atom.kind) {
      case AtomKind::floor_div:
        return floor_div_int(a, b);
      case AtomKind::min:
        return std::min(a, b);
      case AtomKind::max:
        return std::max(a, b);
      default:
        if (a != b && a != 1 && b != 1)
          throw Error(ErrorCode::invalid_argument, "cannot broadcast " + atom.a.str() + " = " + std::to_string(a) +
                                                       " with " + atom.b.str() + " = " + std::to_string(b));
        return a == 1 ? b : a;
    }
  }

  static void symbols(const Dim& d, std::vector<std::string>& names) {
    for (const Term& t : terms(d))
      for (const auto& f : t.factors) {
        if (f->kind == AtomKind::symbol) {
          if (std::find(names.begin(), names.end(), f->name) == names.end()) names.push_back(f->name);
        } else {
          symbols(f->a, names);
          symbols(f->b, names);
        }
      }
  }
};

Dim Dim::symbol(std::string_view name) {
  return DimBuilder::of_atom(Atom{AtomKind::symbol, std::string(name), {}, {}, ""});
}

int64_t Dim::value() const {
  if (!is_constant()) throw Error(ErrorCode::internal, "the dimension " + str() + " is not a constant");
  return constant_;
}
std::optional<int64_t> Dim::as_constant() const {
  return is_constant() ? std::optional<int64_t>(constant_) : std::nullopt;
}
std::optional<std::string> Dim::as_symbol() const {
  const Atom* atom = DimBuilder::single_atom(*this);
  if (atom && atom->kind == AtomKind::symbol) return atom->name;
  return std::nullopt;
}
int64_t Dim::evaluate(const SymbolBindings& bindings) const {
  return DimBuilder::evaluate(*this, bindings);
}
Dim Dim::substitute(const std::map<std::string, Dim, std::less<>>& replacements) const {
  if (is_constant()) return *this;
  return DimBuilder::rebuild(*this, [&](const std::string& name) {
    const auto it = replacements.find(name);
    return it == replacements.end() ? Dim::symbol(name) : it->second;
  });
}
void Dim::collect_symbols(std::vector<std::string>& names) const {
  DimBuilder::symbols(*this, names);
}
std::optional<int64_t> Dim::lower_bound() const {
  return DimBuilder::bound(*this, false);
}
std::optional<int64_t> Dim::upper_bound() const {
  return DimBuilder::bound(*this, true);
}

std::string Dim::str() const {
  if (!terms_) return std::to_string(constant_);
  if (constant_ == 0) return terms_->text;
  if (constant_ > 0) return terms_->text + " + " + std::to_string(constant_);
  return terms_->text + " - " + std::to_string(constant_).substr(1);
}

bool Dim::operator==(const Dim& other) const {
  if (constant_ != other.constant_) return false;
  if (terms_ == other.terms_) return true;
  return terms_ && other.terms_ && terms_->text == other.terms_->text;
}

Dim operator+(const Dim& a, const Dim& b) {
  const int64_t constant = checked_add(a.constant_, b.constant_);
  if (!a.terms_ && !b.terms_) return constant;
  if (!a.terms_ || !b.terms_) {
    Dim d = a.terms_ ? a : b;
    d.constant_ = constant;
    return d;
  }
  std::vector<Dim::Term> list = a.terms_->list;
  list.insert(list.end(), b.terms_->list.begin(), b.terms_->list.end());
  return DimBuilder::make(constant, std::move(list));
}

Dim operator-(const Dim& a, const Dim& b) {
  return a + Dim(-1) * b;
}

Dim operator*(const Dim& a, const Dim& b) {
  if (!a.terms_ && !b.terms_) return checked_mul(a.constant_, b.constant_);
  std::vector<Dim::Term> list;
  const auto with_constant = [](const Dim& d) {
    std::vector<Dim::Term> t = DimBuilder::terms(d);
    if (d.constant_ != 0) t.push_back({d.constant_, {}});
    return t;
  };
  int64_t constant = 0;
  for (const Dim::Term& x : with_constant(a))
    for (const Dim::Term& y : with_constant(b)) {
      Dim::Term t{checked_mul(x.coefficient, y.coefficient), x.factors};
      t.factors.insert(t.factors.end(), y.factors.begin(), y.factors.end());
      std::sort(t.factors.begin(), t.factors.end(), [](const auto& f, const auto& g) { return f->text < g->text; });
      if (t.factors.empty()) {
        constant = checked_add(constant, t.coefficient);
      } else {
        list.push_back(std::move(t));
      }
    }
  return DimBuilder::make(constant, std::move(list));
}

Dim floor_div(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return floor_div_int(a.constant_, b.constant_);
  if (b.is_constant()) {
    const int64_t c = b.constant_;
    if (c == 1) return a;
    if (c > 1) {
      // floor((c·q + r) / c) = q + floor(r / c): everything divisible by c leaves the division.
      std::vector<Dim::Term> out, rest;
      for (const Dim::Term& t : DimBuilder::terms(a)) {
        if (t.coefficient % c == 0) {
          out.push_back({t.coefficient / c, t.factors});
        } else {
          rest.push_back(t);
        }
      }
      const int64_t outside = floor_div_int(a.constant_, c);
      const int64_t remainder = a.constant_ - outside * c;
      const Dim quotient = DimBuilder::make(outside, out);
      if (rest.empty()) return quotient;
      int64_t g = c;
      for (const Dim::Term& t : rest) g = std::gcd(g, t.coefficient);
      for (Dim::Term& t : rest) t.coefficient /= g;
      const Dim inner = DimBuilder::make(remainder / g, rest);
      const int64_t divisor = c / g;
      if (divisor == 1) return quotient + inner;
      if (const auto* atom = DimBuilder::single_atom(inner); atom && atom->kind == AtomKind::floor_div) {
        const auto nested = atom->b.as_constant();
        if (nested && *nested > 0) return quotient + floor_div(atom->a, Dim(checked_mul(*nested, divisor)));
      }
      const auto low = inner.lower_bound(), high = inner.upper_bound();
      if (low && high && floor_div_int(*low, divisor) == floor_div_int(*high, divisor))
        return quotient + floor_div_int(*low, divisor);
      return quotient + DimBuilder::of_function(AtomKind::floor_div, inner, divisor);
    }
  } else if (auto exact = DimBuilder::divide_exactly(a, b)) {
    return *exact;
  }
  return DimBuilder::of_function(AtomKind::floor_div, a, b);
}

Dim ceil_div(const Dim& a, const Dim& b) {
  return floor_div(a + b - Dim(1), b);
}
Dim mod(const Dim& a, const Dim& b) {
  return a - b * floor_div(a, b);
}

Dim min(const Dim& a, const Dim& b) {
  const Dim difference = a - b;
  if (const auto low = difference.lower_bound(); low && *low >= 0) return b;
  if (const auto high = difference.upper_bound(); high && *high <= 0) return a;
  return a.str() < b.str() ? DimBuilder::of_function(AtomKind::min, a, b)
                           : DimBuilder::of_function(AtomKind::min, b, a);
}

Dim max(const Dim& a, const Dim& b) {
  const Dim difference = a - b;
  if (const auto low = difference.lower_bound(); low && *low >= 0) return a;
  if (const auto high = difference.upper_bound(); high && *high <= 0) return b;
  return a.str() < b.str() ? DimBuilder::of_function(AtomKind::max, a, b)
                           : DimBuilder::of_function(AtomKind::max, b, a);
}

Dim broadcast(const Dim& a, const Dim& b) {
  if (a == b) return a;
  for (const auto& [x, y] : {std::pair<const Dim&, const Dim&>(a, b), std::pair<const Dim&, const Dim&>(b, a)}) {
    const auto c = x.as_constant();
    if (c && *c == 1) return y;
    if (c && y.is_constant()) {
      if (*c != y.value() && y.value() != 1)
        throw Error(ErrorCode::invalid_argument, "cannot broadcast " + a.str() + " with " + b.str());
      continue;
    }
    if (c) return x;  // the other must be 1 or the same
    // min(y, c) meets y when a table of c > 1 rows was sliced to y: they can only meet when they are equal.
    if (const auto* atom = DimBuilder::single_atom(x); atom && atom->kind == AtomKind::min) {
      const auto ca = atom->a.as_constant(), cb = atom->b.as_constant();
      if ((atom->a == y && cb && *cb > 1) || (atom->b == y && ca && *ca > 1)) return y;
    }
  }
  return a.str() < b.str() ? DimBuilder::of_function(AtomKind::broadcast, a, b)
                           : DimBuilder::of_function(AtomKind::broadcast, b, a);
}

namespace {

// Recursive descent over: sum = term (('+'|'-') term)*; term = factor ('*' factor)*; factor = number | name | f(sum,
// sum) | (sum)
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}
  Dim parse() {
    const Dim d = sum(0);
    skip();
    if (at_ != text_.size()) fail("unexpected text");
    return d;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::invalid_argument, "not a dimension expression: '" + std::string(text_.substr(0, 200)) +
                                                 "': " + what + " at column " + std::to_string(at_ + 1));
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }
  Dim sum(int depth) {
    if (depth > 64) fail("nested too deep");
    Dim total = take('-') ? Dim(-1) * product(depth) : product(depth);
    for (;;) {
      if (take('+')) {
        total = total + product(depth);
      } else if (take('-')) {
        total = total - product(depth);
      } else {
        return total;
      }
    }
  }
  Dim product(int depth) {
    Dim p = factor(depth);
    while (take('*')) p = p * factor(depth);
    return p;
  }
  Dim factor(int depth) {
    skip();
    if (at_ == text_.size()) fail("it ends early");
    const char c = text_[at_];
    if (std::isdigit(static_cast<unsigned char>(c))) {
      int64_t n = 0;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])))
        n = checked_add(checked_mul(n, 10), text_[at_++] - '0');
      return n;
    }
    if (take('(')) {
      const Dim d = sum(depth + 1);
      if (!take(')')) fail("')' is missing");
      return d;
    }
    std::string name;
    if (take('\'')) {
      while (at_ < text_.size() && text_[at_] != '\'') {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
        name += text_[at_++];
      }
      if (!take('\'')) fail("the quote does not end");
      return Dim::symbol(name);
    }
    while (at_ < text_.size() && plain_name(std::string("_") + text_[at_])) name += text_[at_++];
    if (name.empty()) fail("a name or number is missing");
    if (!take('(')) return Dim::symbol(name);
    const Dim a = sum(depth + 1);
    if (!take(',')) fail("',' is missing");
    const Dim b = sum(depth + 1);
    if (!take(')')) fail("')' is missing");
    if (name == "floor_div") return floor_div(a, b);
    if (name == "min") return min(a, b);
    if (name == "max") return max(a, b);
    if (name == "broadcast") return broadcast(a, b);
    fail("unknown function '" + name + "'");
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Dim Dim::parse(std::string_view text) {
  return DimParser(text).parse();
}

}  // namespace camshaft

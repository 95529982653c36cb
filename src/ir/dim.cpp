#include "ir/dim.h"

#include <algorithm>

#include "ir/dim_internal.h"
#include "ir/dim_too_large.h"

namespace camshaft {

namespace dim_detail {

namespace {

[[noreturn]] void throw_overflow() {
  throw Error(ErrorCode::invalid_argument, "a tensor dimension overflows 64 bits");
}

}  // namespace

int64_t checked_add(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) throw_overflow();
  return r;
}
int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) throw_overflow();
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

bool plain_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '@' || c == ':';
}

bool plain_name(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), plain_name_char);
}

}  // namespace dim_detail

using dim_detail::checked_add;
using dim_detail::checked_mul;

namespace {

std::string quoted(std::string_view name) {
  std::string out = "'";
  for (const char c : name) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

void append(std::string& out, const DimBuilder::Term& t) {
  if (out.empty()) {
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

}  // namespace

const std::vector<Dim::Term>& DimBuilder::terms(const Dim& d) {
  static const std::vector<Term> none;
  return d.terms_ ? d.terms_->list : none;
}

Dim DimBuilder::with_constant(Dim d, int64_t constant) {
  d.constant_ = constant;
  return d;
}

std::vector<Dim::Term> DimBuilder::all_terms(const Dim& d) {
  std::vector<Term> list = terms(d);
  if (d.constant_ != 0) list.push_back({d.constant_, {}});
  return list;
}

int DimBuilder::compare(const Factors& a, const Factors& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? 1 : -1;
  for (size_t i = 0; i < a.size(); ++i) {
    const int c = a[i] == b[i] ? 0 : a[i]->text.compare(b[i]->text);
    if (c != 0) return c;
  }
  return 0;
}

Dim DimBuilder::make(int64_t constant, std::vector<Term> list) {
  // Sums arrive sorted but for one seam, most often; products do not.
  const auto before = [](const Term& x, const Term& y) { return compare(x.factors, y.factors) < 0; };
  if (!std::is_sorted(list.begin(), list.end(), before)) std::sort(list.begin(), list.end(), before);
  std::vector<Term> merged;
  merged.reserve(list.size());
  for (Term& t : list) {
    if (t.factors.empty()) {
      constant = checked_add(constant, t.coefficient);
    } else if (!merged.empty() && compare(merged.back().factors, t.factors) == 0) {
      merged.back().coefficient = checked_add(merged.back().coefficient, t.coefficient);
    } else {
      if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
      merged.push_back(std::move(t));
    }
  }
  if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
  Dim d(constant);
  if (merged.empty()) return d;
  if (merged.size() > max_dim_terms) throw DimTooLarge("more than " + std::to_string(max_dim_terms) + " terms");
  auto shared = std::make_shared<Dim::Terms>();
  shared->list = std::move(merged);
  for (const Term& t : shared->list) {
    append(shared->text, t);
    if (shared->text.size() > max_dim_text)
      throw DimTooLarge("more than " + std::to_string(max_dim_text) + " characters");
    for (const auto& f : t.factors) {
      shared->depth = std::max(shared->depth, f->depth);
      shared->functions += f->functions;
      if (shared->functions > max_dim_functions)
        throw DimTooLarge("more than " + std::to_string(max_dim_functions) + " divisions, minima and maxima");
    }
  }
  d.terms_ = std::move(shared);
  return d;
}

Dim DimBuilder::of_atom(Atom atom) {
  if (atom.kind == AtomKind::symbol) {
    atom.text = dim_detail::plain_name(atom.name) ? atom.name : quoted(atom.name);
  } else {
    for (const Dim* operand : {&atom.a, &atom.b}) {
      if (!operand->terms_) continue;
      atom.depth = std::max(atom.depth, operand->terms_->depth);
      atom.functions += operand->terms_->functions;
    }
    ++atom.functions;
    if (++atom.depth > max_dim_depth) throw DimTooLarge("nested deeper than " + std::to_string(max_dim_depth));
    atom.text = std::string(dim_detail::function_name(atom.kind)) + "(" + atom.a.str() + ", " + atom.b.str() + ")";
  }
  atom.interval = interval(atom);
  return make(0, {Term{1, {std::make_shared<const Atom>(std::move(atom))}}});
}

Dim DimBuilder::of_function(AtomKind kind, const Dim& a, const Dim& b) {
  Atom atom;
  atom.kind = kind;
  atom.a = a;
  atom.b = b;
  return of_atom(std::move(atom));
}

const Dim::Atom* DimBuilder::single_atom(const Dim& d) {
  if (d.constant_ != 0 || !d.terms_ || d.terms_->list.size() != 1) return nullptr;
  const Term& t = d.terms_->list[0];
  return t.coefficient == 1 ? linear_atom(t) : nullptr;
}

Dim Dim::symbol(std::string_view name) {
  Atom atom;
  atom.name = std::string(name);
  return DimBuilder::of_atom(std::move(atom));
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
  if (!a.terms_ || !b.terms_) return DimBuilder::with_constant(a.terms_ ? a : b, checked_add(a.constant_, b.constant_));
  std::vector<Dim::Term> list;
  list.reserve(a.terms_->list.size() + b.terms_->list.size());
  std::merge(a.terms_->list.begin(), a.terms_->list.end(), b.terms_->list.begin(), b.terms_->list.end(),
             std::back_inserter(list),
             [](const auto& x, const auto& y) { return DimBuilder::compare(x.factors, y.factors) < 0; });
  return DimBuilder::make(checked_add(a.constant_, b.constant_), std::move(list));
}

Dim operator-(const Dim& a, const Dim& b) {
  if (b.terms_) return a + Dim(-1) * b;
  int64_t constant = 0;
  if (__builtin_sub_overflow(a.constant_, b.constant_, &constant))
    throw Error(ErrorCode::invalid_argument, "a tensor dimension overflows 64 bits");
  return DimBuilder::with_constant(a, constant);
}

Dim operator*(const Dim& a, const Dim& b) {
  if (!a.terms_ && !b.terms_) return checked_mul(a.constant_, b.constant_);
  if (!a.terms_ && a.constant_ == 1) return b;
  if (!b.terms_ && b.constant_ == 1) return a;
  const std::vector<Dim::Term> left = DimBuilder::all_terms(a), right = DimBuilder::all_terms(b);
  if (left.size() * right.size() > 16 * max_dim_terms)
    throw DimTooLarge("a product of " + std::to_string(left.size()) + " and " + std::to_string(right.size()) +
                      " terms");
  std::vector<Dim::Term> list;
  list.reserve(left.size() * right.size());
  for (const Dim::Term& x : left)
    for (const Dim::Term& y : right) {
      Dim::Term t{checked_mul(x.coefficient, y.coefficient), {}};
      const size_t degree = x.factors.size() + y.factors.size();
      if (degree > max_dim_degree) throw DimTooLarge("a product of " + std::to_string(degree) + " factors");
      t.factors.reserve(degree);
      std::merge(x.factors.begin(), x.factors.end(), y.factors.begin(), y.factors.end(), std::back_inserter(t.factors),
                 [](const auto& f, const auto& g) { return f->text < g->text; });
      list.push_back(std::move(t));
    }
  return DimBuilder::make(0, std::move(list));
}

Dim ceil_div(const Dim& a, const Dim& b) {
  return floor_div(a + b - Dim(1), b);
}
Dim mod(const Dim& a, const Dim& b) {
  return a - b * floor_div(a, b);
}

}  // namespace camshaft

// Values, substitution and symbols of dims.
#include <algorithm>
#include <limits>

#include "ir/dim_internal.h"

namespace camshaft {

namespace {

int64_t evaluate(const Dim& d, const SymbolBindings& bindings);

int64_t evaluate(const DimBuilder::Atom& atom, const SymbolBindings& bindings) {
  if (atom.kind == AtomKind::symbol) {
    const auto it = bindings.find(atom.name);
    if (it == bindings.end())
      throw Error(ErrorCode::invalid_argument, "the dimension '" + atom.name + "' has no value yet");
    return it->second;
  }
  const int64_t a = evaluate(atom.a, bindings), b = evaluate(atom.b, bindings);
  switch (atom.kind) {
    case AtomKind::floor_div:
      return dim_detail::floor_div_int(a, b);
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

// In 128 bits: the normal form multiplies out products whose large terms cancel again.
int64_t evaluate(const Dim& d, const SymbolBindings& bindings) {
  Int128 total = DimBuilder::constant(d);
  bool overflow = false;
  for (const auto& t : DimBuilder::terms(d)) {
    Int128 product = t.coefficient;
    for (const auto& f : t.factors)
      overflow |= __builtin_mul_overflow(product, static_cast<Int128>(evaluate(*f, bindings)), &product);
    overflow |= __builtin_add_overflow(total, product, &total);
  }
  if (overflow || total > std::numeric_limits<int64_t>::max() || total < std::numeric_limits<int64_t>::min())
    throw Error(ErrorCode::invalid_argument, "the tensor dimension " + d.str() + " overflows 64 bits");
  return static_cast<int64_t>(total);
}

using Replacements = std::map<std::string, Dim, std::less<>>;

Dim rebuild(const Dim& d, const Replacements& replacements);

Dim rebuild(const std::shared_ptr<const DimBuilder::Atom>& atom, const Replacements& replacements) {
  if (atom->kind == AtomKind::symbol) {
    const auto it = replacements.find(atom->name);
    return it == replacements.end() ? DimBuilder::make(0, {{1, {atom}}}) : it->second;
  }
  const Dim a = rebuild(atom->a, replacements), b = rebuild(atom->b, replacements);
  switch (atom->kind) {
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

Dim rebuild(const Dim& d, const Replacements& replacements) {
  std::vector<DimBuilder::Term> list;
  for (const auto& t : DimBuilder::terms(d)) {
    Dim product(t.coefficient);
    for (const auto& f : t.factors) product = product * rebuild(f, replacements);
    for (auto& piece : DimBuilder::all_terms(product)) list.push_back(std::move(piece));
  }
  return DimBuilder::make(DimBuilder::constant(d), std::move(list));
}

void collect(const Dim& d, std::vector<std::string>& names) {
  for (const auto& t : DimBuilder::terms(d))
    for (const auto& f : t.factors) {
      if (f->kind == AtomKind::symbol) {
        if (std::find(names.begin(), names.end(), f->name) == names.end()) names.push_back(f->name);
      } else {
        collect(f->a, names);
        collect(f->b, names);
      }
    }
}

}  // namespace

int64_t Dim::evaluate(const SymbolBindings& bindings) const {
  return camshaft::evaluate(*this, bindings);
}

Dim Dim::substitute(const Replacements& replacements) const {
  return is_constant() ? *this : rebuild(*this, replacements);
}

void Dim::collect_symbols(std::vector<std::string>& names) const {
  collect(*this, names);
}

}  // namespace camshaft

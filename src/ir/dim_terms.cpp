#include "ir/dim_terms.h"

#include "ir/dim_internal.h"

namespace camshaft {

namespace {

DimFunction function_of(AtomKind kind) {
  switch (kind) {
    case AtomKind::floor_div:
      return DimFunction::floor_div;
    case AtomKind::min:
      return DimFunction::min;
    case AtomKind::max:
      return DimFunction::max;
    case AtomKind::broadcast:
      return DimFunction::broadcast;
    case AtomKind::symbol:
      break;
  }
  return DimFunction::symbol;
}

}  // namespace

DimTerms terms_of(const Dim& dim) {
  DimTerms out;
  out.constant = DimBuilder::constant(dim);
  for (const DimBuilder::Term& term : DimBuilder::terms(dim)) {
    DimTerm& to = out.terms.emplace_back();
    to.coefficient = term.coefficient;
    for (const auto& atom : term.factors)
      to.factors.push_back(DimFactor{function_of(atom->kind), atom->name, atom->a, atom->b});
  }
  return out;
}

}  // namespace camshaft

#include "ir/ops/operators.h"

#include "ir/ops/all_operators.h"

namespace camshaft {

namespace {

template <Operator... Ops>
OpRegistry registry_of(ops::OperatorList<Ops...>) {
  OpRegistry registry;
  (registry.add<Ops>(), ...);
  return registry;
}

}  // namespace

const OpRegistry& operators() {
  static const OpRegistry registry = registry_of(ops::AllOperators());
  return registry;
}

}  // namespace camshaft

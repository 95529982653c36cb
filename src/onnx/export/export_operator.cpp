#include "onnx/export/export_operator.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/error.h"

namespace camshaft::onnx {

namespace {

using Export = void (*)(ExportContext&, const Op&);

template <camshaft::Operator T>
void export_typed(ExportContext& c, const Op& op) {
  // Not of another type that T converts to.
  constexpr void (*function)(ExportContext&, const T&) = export_as;
  function(c, *op.as<T>());
}

template <camshaft::Operator... Ops>
std::unordered_map<std::type_index, Export> table_of(ops::OperatorList<Ops...>) {
  return {{typeid(Ops), export_typed<Ops>}...};
}

}  // namespace

void export_operator(ExportContext& c, const Op& op) {
  static const std::unordered_map<std::type_index, Export> table = table_of(ops::AllOperators());
  const auto found = table.find(op.type());
  if (found == table.end())
    throw Error(ErrorCode::internal,
                fmt::format("the operator '{}' cannot be written: it is not in ops::AllOperators", op.name()));
  found->second(c, op);
}

}  // namespace camshaft::onnx

#include "ir/ops/bodies.h"

#include "ir/container_type.h"
#include "ir/ops/shape_rules.h"
#include "ir/symbols.h"

namespace camshaft::ops {

bool fits(const TensorType& given, const TensorType& wanted) {
  if (given.dtype != wanted.dtype || given.shape.size() != wanted.shape.size()) return false;
  for (size_t axis = 0; axis < given.shape.size(); ++axis)
    if (provably_different(given.shape[axis], wanted.shape[axis])) return false;
  // An empty sequence is one of elements of any rank and sizes.
  if (given.dtype == DType::sequence && given.shape[0] == Dim(0))
    return given.elements.at(0).dtype == wanted.elements.at(0).dtype;
  for (size_t i = 0; i < wanted.elements.size(); ++i)
    if (i >= given.elements.size() || !accepts_element(wanted.elements[i], given.elements[i])) return false;
  return true;
}

void check_body_inputs(const InferContext& context, const Graph& body, size_t first, size_t body_first) {
  const size_t expected = context.input_count() - first + body_first;
  if (body.inputs.size() != expected) fail_rule("its body has {} inputs, {} are needed", body.inputs.size(), expected);
  for (size_t i = first; i < context.input_count(); ++i) {
    const TensorType& wanted = body.type(body.inputs[i - first + body_first]);
    if (!fits(context.type(i), wanted))
      fail_rule("input {} is {}, the body takes {}", i, to_string(context.type(i)), to_string(wanted));
  }
}

VisibleDims::VisibleDims(const InferContext& context) {
  std::vector<std::string> names;
  for (size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has(i)) continue;
    for (const Dim& d : context.shape(i)) d.collect_symbols(names);
  }
  names_.insert(names.begin(), names.end());
}

bool VisibleDims::contain(const Dim& dim) const {
  return all_symbols({dim}, [&](const std::string& name) { return !name.starts_with('@') || names_.contains(name); });
}

}  // namespace camshaft::ops

#include "ir/ops/map.h"

#include "ir/container_type.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

void check_keys(DType dtype) {
  if (dtype != DType::i64 && dtype != DType::string) fail_rule("keys must be i64 or strings, not {}", to_string(dtype));
}

}  // namespace

std::vector<Inferred> RowsToMaps::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  if (x.shape.empty() || x.shape.size() > 2) fail_rule("rows must have 1 or 2 axes, they have {}", x.shape.size());
  if (is_packed(x.dtype)) fail_rule("values of {} cannot be in a map", to_string(x.dtype));
  if (context.rank(1) != 1) fail_rule("the keys have {} axes, not 1", context.rank(1));
  check_keys(context.dtype(1));
  if (provably_different(x.shape.back(), context.shape(1)[0]))
    fail_rule("{} keys do not fit rows of {} values", context.shape(1)[0].str(), x.shape.back().str());
  return {{sequence_of(map_of(context.dtype(1), x.dtype), x.shape.size() == 2 ? x.shape[0] : Dim(1))}};
}

std::vector<Inferred> MapEntries::infer(const InferContext& context) const {
  const TensorType& map = context.type(0);
  if (map.dtype != DType::map) fail_rule("input 0 must be a map, it is {}", to_string(map));
  check_keys(map.elements[0].dtype);
  if (is_packed(map.elements[1].dtype))
    fail_rule("values of {} cannot be taken out of a map", to_string(map.elements[1].dtype));
  const Dim count = context.fresh(0, 0);
  return {{{map.elements[0].dtype, {count}}}, {{map.elements[1].dtype, {count}}}};
}

}  // namespace camshaft::ops

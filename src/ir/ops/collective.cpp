#include "ir/ops/collective.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

constexpr int64_t most_ranks = 1024;

Dim equal_part(const Dim& size, int64_t ranks, int64_t axis) {
  if (const auto known = size.as_constant(); known && *known % ranks != 0)
    fail_rule("axis {} of size {} has no {} equal parts, one for each rank", axis, *known, ranks);
  return floor_div(size, Dim(ranks));
}

std::string_view kind_name(CollectiveKind kind) {
  return EnumNames<CollectiveKind>::values[static_cast<size_t>(kind)];
}

}  // namespace

std::vector<Inferred> Collective::infer(const InferContext& context) const {
  TensorType type = context.type(0);
  if (ranks < 1 || ranks > most_ranks) fail_rule("{} ranks; 1 to {} are possible", ranks, most_ranks);
  if (root < 0 || root >= ranks) fail_rule("root is rank {} of {}", root, ranks);
  if (holds_objects(type.dtype) || bit_width(type.dtype) % 8 != 0)
    fail_rule("{} cannot be sent to other ranks; cast it to a type of whole bytes", to_string(type.dtype));
  if (reduces() && type.dtype == DType::boolean) fail_rule("truth values cannot be reduced; cast them to numbers");
  if (has_axis()) {
    check_axis(axis, static_cast<int64_t>(type.shape.size()));
    Dim& size = type.shape[static_cast<size_t>(axis)];
    if (kind == CollectiveKind::all_gather) size = size * Dim(ranks);
    if (kind == CollectiveKind::reduce_scatter) size = equal_part(size, ranks, axis);
    if (kind == CollectiveKind::all_to_all) static_cast<void>(equal_part(size, ranks, axis));
  }
  return {Inferred{std::move(type)}};
}

int64_t ranks_of(const Graph& graph) {
  int64_t found = 0;
  const auto take = [&](int64_t ranks) {
    if (ranks != 0 && found != 0 && ranks != found)
      throw Error(ErrorCode::invalid_model,
                  fmt::format("the model has collectives of {} ranks and of {}; all are of one number", found, ranks));
    if (ranks != 0) found = ranks;
  };
  for (const Node& node : graph.nodes) {
    if (const auto* op = node.op.as<Collective>()) take(op->ranks);
    for (const Graph& body : node.bodies) take(ranks_of(body));
  }
  return found;
}

std::string described(const Collective& op, DType dtype, const Dims& dims) {
  std::string what = fmt::format("collective {}: {} of {}{}", op.sequence, kind_name(op.kind),
                                 camshaft::to_string(dtype), camshaft::to_string(dims));
  if (op.has_axis()) what += fmt::format(" along axis {}", op.axis);
  if (op.reduces())
    what += fmt::format(", {}", EnumNames<CollectiveReduction>::values[static_cast<size_t>(op.reduction)]);
  if (op.kind == CollectiveKind::broadcast) what += fmt::format(" from rank {}", op.root);
  return what;
}

}  // namespace camshaft::ops

// Collectives, in the domain camshaft.
#include "ir/ops/collective.h"
#include "onnx/export/export_operator.h"

namespace camshaft::onnx {

void export_as(ExportContext& c, const ops::Collective& op) {
  constexpr const char* names[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "AllToAll"};
  Attributes attributes;
  attributes.integer("group_size", op.ranks);
  if (op.has_axis()) attributes.integer("axis", op.axis);
  if (op.reduces())
    attributes.text("reduce_op",
                    std::string(EnumNames<ops::CollectiveReduction>::values[static_cast<size_t>(op.reduction)]));
  if (op.kind == ops::CollectiveKind::broadcast) attributes.integer("root", op.root);
  c.result({names[static_cast<size_t>(op.kind)], 1, "camshaft"}, c.inputs(), std::move(attributes));
}

}  // namespace camshaft::onnx

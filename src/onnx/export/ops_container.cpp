// Sequences and optionals.
#include "ir/container_type.h"
#include "ir/ops/optional.h"
#include "ir/ops/sequence.h"
#include "onnx/export/export_operator.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

void export_as(ExportContext& c, const ops::SequenceConstruct&) {
  if (c.input_count() > 0) return c.result("SequenceConstruct", c.inputs());
  const TensorType& element = c.result_type().elements.at(0);
  if (is_container(element.dtype)) c.unsupported("ONNX has no empty sequence of sequences, optionals or maps");
  c.result("SequenceEmpty", {}, Attributes().integer("dtype", dtype_to_onnx(element.dtype)));
}

void export_as(ExportContext& c, const ops::SequenceInsert&) {
  c.result("SequenceInsert", c.inputs());
}

void export_as(ExportContext& c, const ops::SequenceErase&) {
  c.result("SequenceErase", c.inputs());
}

void export_as(ExportContext& c, const ops::SequenceAt&) {
  c.result("SequenceAt", c.inputs());
}

void export_as(ExportContext& c, const ops::SequenceLength&) {
  c.result("SequenceLength", c.inputs());
}

void export_as(ExportContext& c, const ops::SplitToSequence& op) {
  c.result({"SplitToSequence", c.dtype(0) == DType::bf16 ? 24 : 0}, c.inputs(),
           Attributes().integer("axis", op.axis).flag("keepdims", op.keep_axis));
}

void export_as(ExportContext& c, const ops::ConcatFromSequence& op) {
  c.result("ConcatFromSequence", c.inputs(), Attributes().integer("axis", op.axis).flag("new_axis", op.new_axis));
}

void export_as(ExportContext& c, const ops::MakeOptional&) {
  if (c.has(0)) return c.result("Optional", {c.input(0)});
  c.result("Optional", {}, Attributes().type("type", type_proto(c.result_type().elements.at(0))));
}

void export_as(ExportContext& c, const ops::OptionalGetElement&) {
  c.result("OptionalGetElement", {c.input(0)});
}

void export_as(ExportContext& c, const ops::OptionalHasElement&) {
  c.result("OptionalHasElement", {c.input(0)});
}

}  // namespace camshaft::onnx

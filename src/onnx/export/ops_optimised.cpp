// What only the optimiser's later passes make: layouts and fused forms that ONNX has no operators for.
#include "onnx/export/export_operator.h"

namespace camshaft::onnx {

namespace {

[[noreturn]] void refuse(ExportContext& c) {
  c.unsupported("it is a form that passes behind canonicalisation make; write the graph as it is before them");
}

}  // namespace

void export_as(ExportContext& c, const ops::Region&) {
  refuse(c);
}
void export_as(ExportContext& c, const ops::Attention&) {
  refuse(c);
}
void export_as(ExportContext& c, const ops::RowMoments&) {
  refuse(c);
}
void export_as(ExportContext& c, const ops::RowNorm&) {
  refuse(c);
}
void export_as(ExportContext& c, const ops::IndexMap&) {
  refuse(c);
}
void export_as(ExportContext& c, const ops::WeightOnlyMatMul&) {
  refuse(c);
}
void export_as(ExportContext& c, const ops::RoundBlocks&) {
  c.unsupported("ONNX has no operator that rounds by blocks; what reads it may take the value as it is");
}
void export_as(ExportContext& c, const ops::ReadBytesAs&) {
  c.unsupported(
      "ONNX has no operator that reads bytes as narrower integers; of constants it folds in canonicalisation");
}

}  // namespace camshaft::onnx

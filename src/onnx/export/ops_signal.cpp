// Fourier transforms and mel weights.
#include "ir/ops/signal.h"
#include "onnx/export/export_operator.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

void export_as(ExportContext& c, const ops::Dft& op) {
  const std::string axis = op.axis < 0 ? c.reshape(c.input(2), c.shape(2), {}) : c.integer(op.axis);
  const std::string length = c.has(1) ? c.reshape(c.input(1), c.shape(1), {}) : std::string();
  c.result("DFT", {c.input(0), length, axis}, Attributes().flag("inverse", op.inverse).flag("onesided", op.onesided));
}

void export_as(ExportContext& c, const ops::Stft& op) {
  c.result("STFT", c.inputs(), Attributes().flag("onesided", op.onesided));
}

void export_as(ExportContext& c, const ops::MelWeights& op) {
  c.result("MelWeightMatrix", c.inputs(), Attributes().integer("output_datatype", dtype_to_onnx(op.dtype)));
}

}  // namespace camshaft::onnx

// Quantisation.
#include <algorithm>

#include "ir/ops/quantize.h"
#include "ir/ops/quantized.h"
#include "onnx/export/export_operator.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

namespace {

struct QuantizedParameters {
  std::string scale, zero;
  Attributes attributes;
};

/// Scale and zero point as ONNX takes them: one number, one for each index of `axis`, or with `block_size` as many axes
/// as x, of which only `axis` may be shorter.
QuantizedParameters parameters(ExportContext& c, int64_t axis, int64_t block) {
  const Shape& x = c.shape(0);
  const auto at = static_cast<size_t>(axis);
  size_t most_axes = 0;
  for (size_t i = 1; i < c.input_count(); ++i)
    if (c.has(i)) most_axes = std::max(most_axes, c.shape(i).size());
  QuantizedParameters out;
  const bool by_blocks = most_axes > 1 || block > 0;
  if (most_axes > 0) out.attributes.integer("axis", axis);
  if (most_axes > 0 && by_blocks) out.attributes.integer("block_size", std::max<int64_t>(block, 1));
  const auto in_form = [&](size_t i) {
    const Shape& shape = c.shape(i);
    if (most_axes == 0) return c.input(i);
    if (!by_blocks) return c.expand(c.input(i), shape, {x[at]});
    Shape full = x, own(x.size(), Dim(1));
    full[at] = block > 0 ? ceil_div(x[at], block) : x[at];
    if (shape.size() == x.size()) own = shape;
    if (shape.size() == 1 && x.size() > 1) own[at] = shape[0];
    return c.expand(c.reshape(c.input(i), shape, own), own, full);
  };
  out.scale = in_form(1);
  if (c.has(2)) out.zero = in_form(2);
  return out;
}

bool is_scale_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f8e8m0;
}

}  // namespace

void export_as(ExportContext& c, const ops::Quantize& op) {
  if (!is_scale_type(c.dtype(1)) && c.dtype(1) != DType::i32)
    c.unsupported("QuantizeLinear takes no scale of " + std::string(to_string(c.dtype(1))));
  QuantizedParameters p = parameters(c, op.axis, op.block);
  if (!c.has(2)) p.attributes.integer("output_dtype", dtype_to_onnx(op.dtype));
  if (!op.saturate) p.attributes.integer("saturate", 0);
  int64_t since = 0;
  // The quotient has the scale's precision unless the attribute says another one.
  const DType otherwise = c.dtype(1) == DType::f8e8m0 ? c.dtype(0) : is_floating(c.dtype(1)) ? c.dtype(1) : DType::f32;
  if (op.precision != otherwise) {
    p.attributes.integer("precision", dtype_to_onnx(op.precision));
    since = 23;
  }
  c.result({"QuantizeLinear", since}, {c.input(0), p.scale, p.zero}, std::move(p.attributes));
}

void export_as(ExportContext& c, const ops::Dequantize& op) {
  if (!is_scale_type(c.dtype(1)))
    c.unsupported("DequantizeLinear takes no scale of " + std::string(to_string(c.dtype(1))));
  if (c.dtype(0) == DType::f32) c.unsupported("DequantizeLinear takes no steps of f32: they are not integers");
  QuantizedParameters p = parameters(c, op.axis, op.block);
  int64_t since = 0;
  if (op.dtype != (c.dtype(1) == DType::f8e8m0 ? DType::f32 : c.dtype(1))) {
    p.attributes.integer("output_dtype", dtype_to_onnx(op.dtype));
    since = 23;
  }
  c.result({"DequantizeLinear", since}, {c.input(0), p.scale, p.zero}, std::move(p.attributes));
}

void export_as(ExportContext& c, const ops::DynamicQuantize&) {
  c.result("DynamicQuantizeLinear", {c.input(0)});
}

}  // namespace camshaft::onnx

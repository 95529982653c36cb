// Poolings, and other operators over windows and positions of images.
#include <limits>

#include "ir/ops/reduce.h"
#include "ir/ops/sample.h"
#include "ir/ops/window_ops.h"
#include "onnx/export/export_operator.h"
#include "onnx/export/window.h"

namespace camshaft::onnx {

namespace {

/// What no maximum is smaller than.
std::string lowest(ExportContext& c) {
  const DType dtype = c.dtype(0);
  if (is_floating(dtype)) return c.number(dtype, -std::numeric_limits<double>::infinity());
  if (!is_signed(dtype)) return c.number(dtype, 0);
  const int bits = bit_width(dtype);
  return c.number(dtype, -static_cast<double>(int64_t{1} << (bits - 2)) * 2);
}

}  // namespace

void export_as(ExportContext& c, const ops::Pool& op) {
  const bool is_max = op.kind == ops::PoolKind::max;
  // Rounding up, windows that begin in the padding behind are left out: it must be known as padding.
  std::function<std::string()> value;
  if (!op.ceil_mode && (is_max || op.count_include_pad))
    value = [&] { return is_max ? lowest(c) : c.number(c.dtype(0), 0); };
  PaddedInput padded = padded_input(c, {op.kernel, op.strides, op.pads, op.dilations, op.channels_last, true}, value);
  if (op.ceil_mode) padded.attributes.integer("ceil_mode", 1);
  if (!is_max && op.count_include_pad) padded.attributes.integer("count_include_pad", 1);
  // Windows that begin in the padding behind the input count since operator set 22 no more.
  const int64_t since = op.ceil_mode ? 22 : 0;
  c.spatial_result({is_max ? "MaxPool" : "AveragePool", since}, {padded.x}, std::move(padded.attributes),
                   op.channels_last);
}

void export_as(ExportContext& c, const ops::MaxPoolIndices& op) {
  // Without a value: positions are counted in the input as it is.
  PaddedInput padded = padded_input(c, {op.kernel, op.strides, op.pads, op.dilations, false, true}, {});
  if (op.ceil_mode) padded.attributes.integer("ceil_mode", 1);
  if (op.column_major) padded.attributes.integer("storage_order", 1);
  c.add_named({"MaxPool", op.ceil_mode ? 22 : 0}, {padded.x}, {c.unused_name(), c.output(0)},
              std::move(padded.attributes));
}

void export_as(ExportContext& c, const ops::Col2Im& op) {
  c.result("Col2Im", {c.input(0), c.indices(1), c.indices(2)},
           Attributes()
               .integers("strides", op.strides)
               .integers("pads", c.fixed(op.pads, "the pads"))
               .integers("dilations", op.dilations));
}

void export_as(ExportContext& c, const ops::Determinant&) {
  c.result("Det", c.inputs());
}

void export_as(ExportContext& c, const ops::GridSample& op) {
  constexpr const char* modes[] = {"linear", "nearest", "cubic"};
  c.result("GridSample", c.inputs(),
           Attributes()
               .text("mode", modes[static_cast<size_t>(op.mode)])
               .text("padding_mode", EnumNames<ops::SamplePadding>::values[static_cast<size_t>(op.padding)])
               .flag("align_corners", op.align_corners));
}

void export_as(ExportContext& c, const ops::RoiAlign& op) {
  if (op.are_turned) c.unsupported("ONNX has no regions that are turned");
  c.result("RoiAlign", {c.input(0), c.input(1), c.indices(2)},
           Attributes()
               .text("mode", op.maximum ? "max" : "avg")
               .text("coordinate_transformation_mode", op.half_pixel ? "half_pixel" : "output_half_pixel")
               .integer("output_height", op.height)
               .integer("output_width", op.width)
               .integer("sampling_ratio", op.sampling_ratio)
               .number("spatial_scale", op.spatial_scale));
}

void export_as(ExportContext& c, const ops::MaxRoiPool& op) {
  c.result("MaxRoiPool", c.inputs(),
           Attributes().integers("pooled_shape", {op.height, op.width}).number("spatial_scale", op.spatial_scale));
}

void export_as(ExportContext& c, const ops::DeformConv& op) {
  std::vector<int64_t> kernel;
  for (size_t i = 2; i < c.shape(1).size(); ++i) kernel.push_back(c.fixed(c.shape(1)[i], "the size of the kernel"));
  c.result("DeformConv", c.inputs(),
           Attributes()
               .integers("kernel_shape", kernel)
               .integers("strides", op.strides)
               .integers("pads", c.fixed(op.pads, "the pads"))
               .integers("dilations", op.dilations)
               .integer("group", op.groups)
               .integer("offset_group", op.offset_groups));
}

}  // namespace camshaft::onnx

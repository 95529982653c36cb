#include "onnx/export/window.h"

#include <algorithm>

#include "ir/ops/spatial.h"

namespace camshaft::onnx {

namespace {

/// The pads that auto_pad stands for where the input has this shape; see read_window() of the importer.
Shape same_pads(const WindowFields& window, const Shape& x, bool upper) {
  const ops::SpatialLayout layout(x.size(), window.channels_last);
  const size_t count = layout.spatial_rank;
  Shape pads(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const Dim& size = x[layout.first_spatial + i];
    const Dim reach = ops::window_extent(window.kernel[i], window.dilations[i]);
    const Dim total = max((ceil_div(size, window.strides[i]) - Dim(1)) * Dim(window.strides[i]) + reach - size, 0);
    const Dim less = floor_div(total, 2);
    pads[i] = upper ? less : total - less;
    pads[count + i] = total - pads[i];
  }
  return pads;
}

}  // namespace

PaddedInput padded_input(ExportContext& c, const WindowFields& window, const std::function<std::string()>& value) {
  PaddedInput out{c.channels_first(0, window.channels_last), {}};
  out.attributes.integers("kernel_shape", window.kernel).integers("strides", window.strides);
  // ONNX Runtime turns an AveragePool between Q and DQ into an operator that refuses the attribute.
  if (std::any_of(window.dilations.begin(), window.dilations.end(), [](int64_t d) { return d != 1; }))
    out.attributes.integers("dilations", window.dilations);
  const Shape& pads = window.pads;
  const bool are_counts = std::all_of(pads.begin(), pads.end(), [](const Dim& d) {
    const auto number = d.as_constant();
    return number && *number >= 0;
  });
  // ONNX Runtime refuses poolings with more padding than that.
  bool is_wide = false;
  for (size_t i = 0; i < pads.size() && are_counts && window.is_pool; ++i)
    is_wide = is_wide || pads[i].value() >= window.kernel[i % window.kernel.size()];
  if (are_counts && (!is_wide || !value)) {
    out.attributes.integers("pads", c.fixed(pads, "the pads"));
    return out;
  }
  for (const bool upper : {true, false})
    if (pads == same_pads(window, c.shape(0), upper)) {
      out.attributes.text("auto_pad", upper ? "SAME_UPPER" : "SAME_LOWER");
      return out;
    }
  if (!value) c.fixed(pads, "the pads");
  if (!value) c.unsupported("ONNX takes no negative pads here");
  const size_t count = window.kernel.size();
  Shape all(2 * (count + 2), Dim(0));
  for (size_t i = 0; i < count; ++i) {
    all[2 + i] = pads[i];
    all[count + 4 + i] = pads[count + i];
  }
  out.x = c.add("Pad", {out.x, c.sizes(all), value()});
  return out;
}

}  // namespace camshaft::onnx

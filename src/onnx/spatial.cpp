#include "onnx/spatial.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/spatial.h"

namespace camshaft::onnx {

std::vector<int64_t> positive_ints(ConvertContext& c, std::string_view name, size_t count) {
  auto list = c.ints_attribute(name).value_or(std::vector<int64_t>(count, 1));
  if (list.size() != count)
    c.invalid(fmt::format("attribute '{}' has {} numbers for {} spatial axes", name, list.size(), count));
  if (std::any_of(list.begin(), list.end(), [](int64_t i) { return i < 1; }))
    c.invalid(fmt::format("attribute '{}' must be positive", name));
  return list;
}

Window read_window(ConvertContext& c, ValueId x, std::optional<std::vector<int64_t>> kernel) {
  if (c.rank(x) < 3) c.invalid(fmt::format("the input has {} axes; [n, c, spatial...] is needed", c.rank(x)));
  const auto count = static_cast<size_t>(c.rank(x) - 2);
  Window w;
  if (!kernel && !c.has_attribute("kernel_shape")) c.invalid("attribute 'kernel_shape' is missing");
  w.kernel = c.has_attribute("kernel_shape") || !kernel ? positive_ints(c, "kernel_shape", count) : *kernel;
  if (kernel && w.kernel != *kernel) c.invalid("attribute 'kernel_shape' is not the shape of the weights");
  w.strides = positive_ints(c, "strides", count);
  w.dilations = positive_ints(c, "dilations", count);
  const std::string auto_pad = c.string_attribute("auto_pad", "NOTSET");
  w.pads.assign(2 * count, Dim(0));
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    if (const auto pads = c.ints_attribute("pads")) {
      if (pads->size() != 2 * count) c.invalid(fmt::format("{} pads for {} spatial axes", pads->size(), count));
      w.pads.assign(pads->begin(), pads->end());
    }
  } else if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    for (size_t i = 0; i < count; ++i) {
      const Dim size = c.dim(x, static_cast<int64_t>(i) + 2), out = ceil_div(size, w.strides[i]);
      const Dim reach = ops::window_extent(w.kernel[i], w.dilations[i]);
      const Dim total = max((out - Dim(1)) * Dim(w.strides[i]) + reach - size, 0);
      const Dim less = floor_div(total, 2);
      w.pads[i] = auto_pad == "SAME_UPPER" ? less : total - less;
      w.pads[count + i] = total - w.pads[i];
    }
  } else if (auto_pad != "VALID") {
    c.invalid(fmt::format("auto_pad '{}' is unknown", auto_pad));
  }
  return w;
}

}  // namespace camshaft::onnx

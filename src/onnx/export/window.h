// What convolutions and poolings share: pads that ONNX takes as numbers.
#pragma once

#include <functional>

#include "onnx/export/export_context.h"

namespace camshaft::onnx {

/// The first operand of a windowed operator, channels first, and the attributes that say how it is padded.
struct PaddedInput {
  std::string x;
  Attributes attributes;
};

/// What the windows need to know about an operator. `pads` has all begins, then all ends.
struct WindowFields {
  const std::vector<int64_t>& kernel;
  const std::vector<int64_t>& strides;
  const Shape& pads;
  const std::vector<int64_t>& dilations;
  bool channels_last;
  bool is_pool;
};

/// Pads that are numbers, none negative, and of poolings less than the kernel, become `pads`; those that follow from
/// sizes as auto_pad has it, that; others are a Pad with `value` before it. An operator that cannot be padded before
/// (an average that leaves the padding out, windows that count in the input) has no value: pads that are no numbers are
/// refused then.
PaddedInput padded_input(ExportContext& c, const WindowFields& window, const std::function<std::string()>& value);

}  // namespace camshaft::onnx

#include "ir/ops/scan.h"

#include <algorithm>

#include "ir/ops/bodies.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> Scan::infer(const InferContext& context) const {
  const Graph& body = context.body(0);
  const size_t scanned = input_axes.size(), collected = output_axes.size();
  if (states < 0 || scanned < 1 || input_reversed.size() != scanned || output_reversed.size() != collected)
    fail_rule("its lists of axes and directions do not go together");
  const auto count = static_cast<size_t>(states);
  if (count > context.input_count() || scanned > context.input_count() - count)
    fail_rule("{} states and {} scanned inputs are more than the {} inputs", states, scanned, context.input_count());
  if (body.inputs.size() != context.input_count())
    fail_rule("its body has {} inputs, {} are needed", body.inputs.size(), context.input_count());
  if (body.outputs.size() != count + collected)
    fail_rule("the body gives {} results, {} are needed", body.outputs.size(), count + collected);
  Dim length = 0;
  for (size_t i = 0; i < context.input_count(); ++i) {
    TensorType given = context.type(i);
    if (i >= count && i < count + scanned) {
      const int64_t axis = input_axes[i - count];
      if (is_container(given.dtype)) fail_rule("input {} cannot be scanned: it is {}", i, to_string(given));
      check_axis(axis, static_cast<int64_t>(given.shape.size()));
      const Dim& size = given.shape[static_cast<size_t>(axis)];
      length = i == count ? size : same_size(length, size, "the scanned inputs", static_cast<size_t>(axis));
      given.shape.erase(given.shape.begin() + axis);
    }
    const TensorType& wanted = body.type(body.inputs[i]);
    if (!fits(given, wanted)) fail_rule("input {} gives {}, the body takes {}", i, to_string(given), to_string(wanted));
  }
  const VisibleDims visible(context);
  std::vector<Inferred> out;
  for (size_t o = 0; o < std::min(body.outputs.size(), context.output_count()); ++o) {
    TensorType type = body.type(body.outputs[o]);
    if (o < count) {
      const TensorType& inside = body.type(body.inputs[o]);
      if (!fits(type, inside)) fail_rule("state {} begins as {} and becomes {}", o, to_string(inside), to_string(type));
      type = context.type(o);
    } else {
      if (is_container(type.dtype)) fail_rule("{} cannot be collected", to_string(type));
      const int64_t axis = output_axes[o - count];
      check_axis(axis, static_cast<int64_t>(type.shape.size()) + 1);
      type.shape.insert(type.shape.begin() + axis, length);
      for (size_t i = 0; i < type.shape.size(); ++i)
        if (!visible.contain(type.shape[i])) type.shape[i] = context.fresh(o, i);
    }
    out.push_back({std::move(type)});
  }
  return out;
}

}  // namespace camshaft::ops

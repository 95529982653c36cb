#include "runtime/shared_memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace camshaft {

namespace {

// What a run uses of it: callers may give more than is needed, up to all that they have.
CallerBuffer used(CallerBuffer buffer, const BoundPlan& bound, int32_t value) {
  if (bound.known(value)) buffer.bytes = std::min(buffer.bytes, bound.bytes(value));
  return buffer;
}

}  // namespace

bool overlap(const CallerBuffer& a, const CallerBuffer& b) {
  if (!a.data || !b.data || a.device != b.device) return false;
  const bool a_is_first = std::less<>()(a.data, b.data);
  const CallerBuffer &first = a_is_first ? a : b, &second = a_is_first ? b : a;
  return second.bytes > 0 && static_cast<size_t>(second.data - first.data) < first.bytes;
}

void check_overlaps(const CallerMemory& memory, const BoundPlan& bound, const Plan& plan,
                    const std::vector<TensorInfo>& outputs) {
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!memory.outputs[o].data) continue;
    const CallerBuffer out = used(memory.outputs[o], bound, plan.root(plan.outputs[o]));
    for (size_t i = 0; i < memory.inputs.size(); ++i) {
      const CallerBuffer in = used(memory.inputs[i], bound, plan.inputs[i]);
      const std::string &name = plan.input_names[i], &may = outputs[o].aliased_input;
      if (!overlap(out, in) || (out.data == in.data && may == name)) continue;
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("output '{}' is bound to memory of input '{}', {}", outputs[o].name, name,
                      may == name   ? "but does not begin where that does"
                      : may.empty() ? "which may be read after it is written: give it memory of its own"
                                    : fmt::format("and may only share that of input '{}', which it updates", may)));
    }
    for (size_t k = o + 1; k < outputs.size(); ++k)
      if (overlap(out, used(memory.outputs[k], bound, plan.root(plan.outputs[k]))))
        throw Error(ErrorCode::invalid_argument, fmt::format("outputs '{}' and '{}' are bound to the same memory",
                                                             outputs[o].name, outputs[k].name));
  }
}

}  // namespace camshaft

#include "backends/cpu/passes/narrow_exact_scales.h"

#include <algorithm>

#include "base/float_types.h"
#include "ir/replaceable.h"
#include "optimize/edit/narrow_scales.h"

namespace camshaft {

void narrow_exact_scales(Graph& graph, const PassContext&) {
  narrow_scales(graph, DType::f32, [](const Value& scale) {
    if (may_be_replaced(scale.provenance)) {
      note_replaceable(scale.provenance, "scales that fp16 may not hold stay fp32");
      return false;
    }
    const auto* x = scale.constant->as<float>();
    return std::all_of(x, x + scale.constant->size(), [](float s) { return f16_to_float(float_to_f16(s)) == s; });
  });
}

}  // namespace camshaft

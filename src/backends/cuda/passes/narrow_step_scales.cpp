#include "backends/cuda/passes/narrow_step_scales.h"

#include <algorithm>
#include <cmath>

#include "ir/replaceable.h"
#include "optimize/edit/narrow_scales.h"

namespace camshaft {

namespace {

bool has_all(const Tensor& scale) {
  constexpr float largest = 65504, least = 0x1p-14F;
  const auto* x = scale.as<float>();
  return std::all_of(x, x + scale.size(),
                     [](float s) { return s == 0 || (std::fabs(s) >= least && std::fabs(s) <= largest); });
}

}  // namespace

void narrow_step_scales(Graph& graph, const PassContext&) {
  narrow_scales(graph, DType::f16, [](const Value& scale) {
    fix_numbers(scale.provenance, "whether fp16 holds it");
    return has_all(*scale.constant);
  });
}

}  // namespace camshaft

#include "backends/cpu/tactics/part_inputs.h"

#include "ir/region.h"

namespace camshaft::cpu {

std::optional<PartInputs> PartInputs::of_part(const Graph& body, const Node& node, const SpatialView& view,
                                              ValueId made, ValueId instead) {
  std::vector<int32_t> of;
  const auto x = static_cast<size_t>(view.x);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ValueId id = node.inputs[i];
    if (i == x && made != no_value) {
      if (id != made || view.epilogue.reads(i)) return std::nullopt;
      if (instead == no_value) {
        of.push_back(from_inside);
        continue;
      }
      id = instead;
    }
    const int32_t input = input_index(body, id);
    if (id != no_value && input < 0) return std::nullopt;
    of.push_back(id == no_value ? omitted : input);
  }
  return PartInputs(std::move(of));
}

KernelShapes PartInputs::shapes(const KernelShapes& region, const OperandShape& inside) const {
  KernelShapes own;
  own.symbols = region.symbols;
  own.threads = region.threads;
  for (const int32_t from : of_)
    own.inputs.push_back(from == omitted       ? OperandShape{}
                         : from == from_inside ? inside
                                               : region.inputs[static_cast<size_t>(from)]);
  return own;
}

void PartInputs::bind(std::span<const std::byte* const> region, std::span<const std::byte*> inputs) const {
  for (size_t i = 0; i < of_.size(); ++i) inputs[i] = of_[i] < 0 ? nullptr : region[static_cast<size_t>(of_[i])];
}

}  // namespace camshaft::cpu

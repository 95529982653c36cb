#include "backends/cuda/tactics/prologue.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/tactics/narrow.h"
#include "compile/region/pointwise_view.h"
#include "ir/region.h"

namespace camshaft::cuda {

std::optional<ChainedProduct> ChainedProduct::of(const RegionView& chain) {
  if (!is_chain(chain.node)) return std::nullopt;
  ChainedProduct made;
  made.chain_ = &chain;
  made.parts_ = open_chain(chain);
  const Graph& parts = made.parts_;
  if (parts.nodes.size() != 2 || parts.nodes[0].outputs.size() != 1 || parts.nodes[1].inputs.empty() ||
      parts.nodes[1].inputs[0] != parts.nodes[0].outputs[0] || parts.outputs != parts.nodes[1].outputs)
    return std::nullopt;
  for (size_t n = 0; n < 2; ++n)
    for (const ValueId id : parts.nodes[n].inputs)
      made.inputs_[n].push_back(id == no_value ? -1 : input_index(parts, id));
  const auto is_apart = [](int32_t i) { return i < 0; };
  if (std::any_of(made.inputs_[0].begin(), made.inputs_[0].end(), is_apart) ||
      std::count_if(made.inputs_[1].begin(), made.inputs_[1].end(), is_apart) != 1)
    return std::nullopt;
  return made;
}

std::optional<Prologue> view_prologue(const ChainedProduct& chained) {
  const RegionView region = chained.before();
  const auto view = view_pointwise(region);
  if (!view || view->program.outputs.size() != 1 || view->loads.size() > size_t{most_prologue_operands})
    return std::nullopt;
  const TensorType& result = chained.between();
  Prologue made{.program = view->program, .loads = {}, .types = {}, .layouts = {}, .result = result.dtype};
  if (result.shape.size() < 2 || result.shape.size() > std::size(RowMap{}.size) + 1 || !has_stored_type(result.dtype))
    return std::nullopt;
  for (const ScalarInstruction& i : made.program.instructions)
    if (!has_stored_type(i.dtype)) return std::nullopt;
  for (const int32_t load : view->loads) {
    const TensorType& type = region.graph.type(region.node.inputs[static_cast<size_t>(load)]);
    made.loads.push_back(chained.inputs_of_before()[static_cast<size_t>(load)]);
    made.types.push_back(type.dtype);
    made.layouts.push_back(layout_over(type.shape, result.shape));
  }
  return made;
}

std::string rows_text(const Prologue& prologue) {
  constexpr std::string_view layouts[] = {"one", "columns", "dense", "general"};
  std::string loads;
  for (size_t k = 0; k < prologue.loads.size(); ++k) {
    const auto layout = prologue.layouts[k];
    const bool is_of_row = layout == EpilogueView::Layout::dense || layout == EpilogueView::Layout::general;
    loads += fmt::format(
        "    {} x{}[columns_at_once];\n    load_columns<Layout::{}, false>(p.before[{}], {}, k, count, x{});\n",
        device_type(prologue.types[k]), k, layouts[static_cast<size_t>(layout)], k, is_of_row ? "row" : "0", k);
  }
  const bool is_narrow = is_floating(prologue.result) && bit_width(prologue.result) <= 16;
  return fmt::format(
      R"(
struct ComputedRows {{
  template <class Parameters, class T>
  static __device__ __forceinline__ void get(const Parameters& p, u32 row, u32 k, T (&to)[columns_at_once]) {{
    const u32 count = k >= p.k ? 0 : p.k - k < columns_at_once ? p.k - k : columns_at_once;
{loads}{statements}#pragma unroll
    for (u32 i = 0; i < columns_at_once; ++i) to[i] = i < count ? Narrow<T>::from({value}) : T{{}};
  }}
}};
)",
      fmt::arg("loads", loads),
      fmt::arg("statements", statements_of_several(
                                 prologue.program, [](int32_t input) { return fmt::format("widen(x{}[i])", input); },
                                 "    ", is_narrow ? Accuracy::of_halves : Accuracy::full, 8)),
      fmt::arg("value", value_of_several(prologue.program, prologue.program.outputs[0])));
}

void use_inputs_of_chain(ContractView& contract, EpilogueView& epilogue, const std::vector<int32_t>& inputs) {
  const auto rename = [&](int32_t& input) {
    if (input >= 0) input = inputs[static_cast<size_t>(input)];
  };
  for (auto* all : {&contract.anchor_inputs, &contract.epilogue_loads, &epilogue.loads})
    for (int32_t& input : *all) rename(input);
  rename(contract.moments);
}

PrologueOperands::PrologueOperands(const Prologue& prologue, const KernelShapes& shapes, const Dims& dims)
    : loads_(prologue.loads) {
  for (const int32_t load : loads_) {
    maps_.push_back(map_operand(shapes.inputs[static_cast<size_t>(load)], dims));
    narrow(maps_.back().row_stride, "a row of an operand");
  }
}

void PrologueOperands::bind(const LaunchArguments& arguments, EpilogueOperand* operands) const {
  for (size_t k = 0; k < loads_.size(); ++k) {
    const void* data = arguments.inputs[static_cast<size_t>(loads_[k])];
    operands[k] = {data, maps_[k].column_stride, narrow(maps_[k].row_stride),
                   maps_[k].can_be_vector && is_aligned(data), maps_[k].rows};
  }
}

}  // namespace camshaft::cuda

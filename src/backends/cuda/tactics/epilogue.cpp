#include "backends/cuda/tactics/epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "backends/cuda/codegen/gelu_steps.h"
#include "backends/cuda/codegen/rounded_steps.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/tactics/narrow.h"
#include "compile/plan/shape_check.h"
#include "device_texts.h"
#include "ir/ops/broadcast.h"

namespace camshaft::cuda {

namespace {

std::string_view layout_name(EpilogueView::Layout layout) {
  constexpr std::string_view names[] = {"one", "columns", "dense", "general"};  // norms have none
  return names[static_cast<size_t>(layout)];
}

bool is_of_norm(EpilogueView::Layout layout) {
  return layout == EpilogueView::Layout::row_mean || layout == EpilogueView::Layout::row_factor;
}

bool adds_bytes(const EpilogueView& view) {
  return view.program.instructions.at(0).dtype == DType::i32;
}

// Of what becomes 8 bits: it is the larger part of the time of kernels that sum these.
std::optional<GeluSteps> gelu_of(const EpilogueView& view) {
  auto steps = adds_bytes(view) ? rounded_steps(view.program, view.program.outputs.at(0)) : std::nullopt;
  if (const auto number = unrounded_float8(view.program, 0)) steps = RoundedSteps{.value = *number};
  if (!steps) return std::nullopt;
  return gelu_steps(view.program, *steps, [&](int32_t input) { return view.most.at(static_cast<size_t>(input) - 1); });
}

// What is rounded, moved by the zero point already.
std::string gelu_text(const ScalarProgram& program, const GeluSteps& gelu) {
  const bool has_factor = gelu.factor >= 0;
  const std::string text =
      fmt::format("gelu_in_steps<{}>({}, __uint_as_float({:#x}u), {})", gelu.is_fine, value_of_several(program, gelu.x),
                  std::bit_cast<uint32_t>(gelu.steps), has_factor ? 0 : gelu.zero);
  return has_factor ? fmt::format("fmaf({}, {}, f32({}))", text, value_of_several(program, gelu.factor), gelu.zero)
                    : text;
}

constexpr size_t most_row_axes = std::size(RowMap{}.size);

}  // namespace

std::optional<EpilogueView> device_epilogue(const RegionView& region, const ContractView& view, int32_t bias) {
  if (view.result.shape.size() > most_row_axes + 1) return std::nullopt;
  EpilogueView made = view_epilogue(region, view, bias);
  const size_t operands = made.loads.size() + (made.gives_moments ? 1 : 0);
  if (operands > static_cast<size_t>(most_epilogue_operands)) return std::nullopt;
  constexpr int64_t most_width = 1 << 20;
  if (made.norm && (made.norm->width > most_width || !std::isfinite(made.norm->epsilon))) return std::nullopt;
  const auto can_be_given = [](int64_t width) { return width == 16 || width == 32; };  // by two or four lanes
  if (made.gives_moments && (!can_be_given(made.gives_moments->width) || made.result == DType::f64))
    return std::nullopt;
  for (const ScalarInstruction& i : made.program.instructions)
    if (!has_stored_type(i.dtype)) return std::nullopt;
  return has_stored_type(made.result) ? std::optional(std::move(made)) : std::nullopt;
}

bool moves_steps_of(const EpilogueView& view) {
  return gelu_of(view).has_value();
}

std::string finish_text(const EpilogueView& view, bool aligned) {
  const bool sums_bytes = adds_bytes(view);
  const auto steps = rounded_steps(view.program, view.program.outputs.at(0));
  // What is the same for all rows is read, and widened, once.
  std::string members[2], loads[2], norms[3], end, fetch;
  std::vector<std::string> names;
  bool columns_are_constant = true;
  for (size_t k = 0; k < view.types.size(); ++k) {
    if (is_of_norm(view.layouts[k])) {
      names.emplace_back(view.layouts[k] == EpilogueView::Layout::row_mean ? "of_row.norm.x" : "of_row.norm.y");
      if (!norms[0].empty()) continue;
      members[1] += "    float2 norm;\n";
      loads[1] += "      norm = row_norms()[row % tile_rows];\n";
      norms[0] = fmt::format("    RowNorms<{}, {}> norms;\n", view.norm->width, view.norm->root_mean_square);
      norms[1] = fmt::format("      norms.load(p.operand[{}], first_row, end_row, {:.9e}f);\n", k, view.norm->epsilon);
      norms[2] = fmt::format("      norms.put(p.operand[{}], {:.9e}f);\n", k, view.norm->epsilon);
      continue;
    }
    const std::string type = device_type(view.types[k]), number = std::to_string(k + 1);
    const bool is_of_row =
        view.layouts[k] == EpilogueView::Layout::dense || view.layouts[k] == EpilogueView::Layout::general;
    const std::string load = fmt::format("load_columns<Layout::{}, {}>(p.operand[{}], {}, column, count, ",
                                         layout_name(view.layouts[k]), aligned, k, is_of_row ? "row" : "0");
    if (view.layouts[k] == EpilogueView::Layout::dense)
      fetch +=
          fmt::format("    fetch_tile<{}, COLUMNS, THREADS>(p.operand[{}], row, column, rows, columns);\n", type, k);
    if (is_of_row) {
      members[1] += fmt::format("    HeldColumns<{}> x{};\n", type, number);
      loads[1] += fmt::format("      {}x{});\n", load, number);
      names.push_back(fmt::format("widen(of_row.x{}[i])", number));
    } else {
      columns_are_constant = columns_are_constant && view.constant[k];
      members[0] += fmt::format("    {} x{}[8];\n", computing_type(view.types[k]), number);
      loads[0] += fmt::format(
          "      {0} raw{1}[8];\n      {2}raw{1});\n#pragma unroll\n"
          "      for (int i = 0; i < 8; ++i) x{1}[i] = widen(raw{1}[i]);\n",
          type, number, load);
      names.push_back(fmt::format("of_columns.x{}[i]", number));
    }
  }
  if (sums_bytes) {
    members[0] += "    i32 begin[8];\n";
    loads[0] += fmt::format("      load_begin<{}>(p, column, count, begin);\n", aligned);
  }
  const std::string sum = sums_bytes ? "add_bytes(sum[i], of_columns.begin[i])" : "sum[i]";
  const std::string statements = statements_of_several(
      view.program, [&](int32_t input) { return input == 0 ? sum : names[static_cast<size_t>(input) - 1]; }, "    ",
      steps || (is_floating(view.result) && bit_width(view.result) <= 16) ? Accuracy::of_halves : Accuracy::full, 8);
  if (view.gives_moments)
    end = fmt::format("    put_moments<{}, {}>(p.operand[{}], row, column, y);\n", device_type(view.result),
                      view.gives_moments->width, view.types.size());
  const int32_t result = steps ? steps->value : unrounded_float8(view.program, 0).value_or(view.program.outputs.at(0));
  const auto gelu = gelu_of(view);
  const std::string last = gelu ? gelu_text(view.program, *gelu) : value_of_several(view.program, result);
  const std::string stores =
      steps ? fmt::format("store_steps<{}, aligned>(p, row, column, count, {}, y);", device_type(view.result),
                          gelu ? 0 : steps->zero)
            : fmt::format("way.template give<{}, aligned>(p, row, column, count, y);", device_type(view.result));
  // Several rows at once hide the time that memory takes; of long programs they would be too much code.
  constexpr size_t short_program = 12;
  const int rows = loads[1].empty() ? 2 : view.program.instructions.size() <= short_program ? 4 : 2;
  const std::string_view before = norms[0].empty() && end.empty() ? std::string_view() : device::row_norm_cuh;
  return std::string(before) +
         fmt::format(
             R"(
struct Finish {{
  static constexpr int rows_at_once = {rows};
  static constexpr bool aligned = {aligned};
  static constexpr bool gives_halves = {halves};  // of 16 bits, by the way that run() is given
  static constexpr bool columns_are_constant = {constant};  // no kernel writes what OfColumns loads
  struct OfColumns {{
{column_members}    template <class Parameters>
    __device__ __forceinline__ void load(const Parameters& p, u32 column, u32 count) {{
{column_loads}    }}
  }};
  struct OfRow {{
{row_members}    template <class Parameters>
    __device__ __forceinline__ void load(const Parameters& p, u32 row, u32 column, u32 count) {{
{row_loads}    }}
  }};
  /// Of the block's rows, by all threads: load() before the sums are made, and put() behind them, before the threads wait
  /// for each other and then come to run(). There neighbouring lanes have 8 columns each of a row.
  struct OfBlock {{
{block_members}    template <class Parameters>
    __device__ __forceinline__ void load(const Parameters& p, u32 first_row, u32 end_row) {{
{block_loads}    }}
    template <class Parameters>
    __device__ __forceinline__ void put(const Parameters& p) const {{
{block_puts}    }}
  }};
  /// Called by all threads: what is read of a tile may come from memory meanwhile.
  template <u32 COLUMNS, u32 THREADS, class Parameters>
  static __device__ __forceinline__ void fetch(const Parameters& p, u32 row, u32 column, u32 rows, u32 columns) {{
{fetch}  }}
  template <class Parameters, class Way = StoreColumns>
  static __device__ __forceinline__ void run(const Parameters& p, const {sum} (&sum)[8], const OfColumns& of_columns,
                                             const OfRow& of_row, u32 row, u32 column, u32 count, Way&& way = Way()) {{
{statements}    {computing} y[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) y[i] = {last};
    {stores}
{end}  }}
}};
)",
             fmt::arg("rows", rows), fmt::arg("aligned", aligned),
             fmt::arg("halves", !steps && is_floating(view.result) && bit_width(view.result) == 16),
             fmt::arg("constant", columns_are_constant), fmt::arg("column_members", members[0]),
             fmt::arg("column_loads", loads[0]), fmt::arg("row_members", members[1]), fmt::arg("row_loads", loads[1]),
             fmt::arg("sum", sums_bytes ? "i32" : "f32"), fmt::arg("stores", stores),
             fmt::arg("computing", computing_type(view.program.instructions[static_cast<size_t>(result)].dtype)),
             fmt::arg("statements", statements), fmt::arg("last", last), fmt::arg("block_members", norms[0]),
             fmt::arg("block_loads", norms[1]), fmt::arg("block_puts", norms[2]), fmt::arg("fetch", fetch),
             fmt::arg("end", end));
}

bool can_overwrite(const RegionView& region, const ContractView& contract, const EpilogueView& view, int32_t i) {
  if (std::find(view.loads.begin(), view.loads.end(), i) == view.loads.end()) return false;
  if (std::find(contract.anchor_inputs.begin(), contract.anchor_inputs.end(), i) != contract.anchor_inputs.end())
    return false;
  return region.graph.type(region.node.inputs[static_cast<size_t>(i)]) == region.graph.type(region.node.outputs[0]);
}

OperandMap map_operand(const OperandShape& operand, const Dims& out) {
  OperandMap map;
  Dims strides = ops::broadcast_strides(operand.dims, out);
  map.column_stride = strides.empty() ? 0 : strides.back();
  map.row_stride = operand.pitch();
  const int64_t width = operand.dims.empty() ? 1 : operand.dims.back();
  int64_t vector_stride = 0;                      // a divisor of all row strides
  std::vector<std::pair<int64_t, int64_t>> axes;  // size, stride; the last first
  for (size_t d = out.size(); d-- > 1;) {
    const int64_t size = out[d - 1];
    // Strides of a dense tensor become those of its rows' pitch.
    const int64_t stride = width == 0 ? 0 : strides[d - 1] / width * operand.pitch();
    if (size == 1) continue;
    vector_stride |= stride;
    if (!axes.empty() && stride == axes.back().first * axes.back().second) {
      axes.back().first *= size;
    } else {
      axes.emplace_back(size, stride);
    }
  }
  if (axes.size() > most_row_axes)
    throw Error(ErrorCode::unsupported, "an operand of more than 7 axes that cannot be merged");
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto& [size, stride] = axes[axes.size() - 1 - i];
    map.rows.size[i] = Divisor(narrow(std::max<int64_t>(size, 1)));
    map.rows.stride[i] = stride;
  }
  map.rows.rank = narrow(axes.size());
  map.can_be_vector = map.column_stride == 1 && vector_stride % 8 == 0;
  return map;
}

namespace {

// [rows of the result..., parts, 2]: the row stride counts parts.
OperandMap map_moments(const Dims& moments, const Dims& out) {
  const bool fits = moments.size() == out.size() + 1 && moments.back() == 2 &&
                    std::equal(out.begin(), out.end() - 1, moments.begin());
  if (!fits) throw Error(ErrorCode::invalid_argument, "moments of other rows than those of a product");
  OperandMap map;
  map.row_stride = moments[out.size() - 1];
  return map;
}

bool is_one_of_row(EpilogueView::Layout layout) {
  return layout == EpilogueView::Layout::one || is_of_norm(layout);
}

}  // namespace

EpilogueOperands::EpilogueOperands(const EpilogueView& view, const KernelShapes& shapes)
    : loads_(view.loads), layouts_(view.layouts), gives_moments_(view.gives_moments.has_value()) {
  const Dims& out = shapes.outputs[0].dims;
  for (size_t k = 0; k < view.loads.size(); ++k) {
    const OperandShape& operand = shapes.inputs[static_cast<size_t>(view.loads[k])];
    maps_.push_back(is_of_norm(view.layouts[k]) ? map_moments(operand.dims, out) : map_operand(operand, out));
    constexpr int64_t most = int64_t{1} << 31;
    if (maps_.back().row_stride >= most)
      throw Error(ErrorCode::unsupported,
                  fmt::format("rows of {} elements are more than GPU kernels count", maps_.back().row_stride));
  }
  if (!gives_moments_) return;
  maps_.push_back(map_moments(shapes.outputs[1].dims, out));
  require_equal(maps_.back().row_stride * view.gives_moments->width, out.back(), "the columns of all parts of a row");
}

bool EpilogueOperands::can_be_vector() const {
  for (size_t k = 0; k < loads_.size(); ++k)
    if (!is_one_of_row(layouts_[k]) && !maps_[k].can_be_vector) return false;
  return true;
}

bool EpilogueOperands::bind(const LaunchArguments& arguments, EpilogueOperand* operands) const {
  bool all = true;
  const auto parameter = [&](size_t k, const void* data, bool vector) {
    operands[k] = {data, maps_[k].column_stride, narrow(maps_[k].row_stride), vector, maps_[k].rows};
  };
  for (size_t k = 0; k < loads_.size(); ++k) {
    const void* data = arguments.inputs[static_cast<size_t>(loads_[k])];
    // 8 elements of a byte need 8 of alignment only; asking for 16 loses nothing but odd slices.
    const bool vector = maps_[k].can_be_vector && is_aligned(data);
    parameter(k, data, vector);
    all = all && (vector || is_one_of_row(layouts_[k]));
  }
  if (gives_moments_) parameter(loads_.size(), arguments.outputs[1], false);  // written, by the same means
  return all;
}

}  // namespace camshaft::cuda

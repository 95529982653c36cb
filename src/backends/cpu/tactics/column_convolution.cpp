#include "backends/cpu/tactics/column_convolution.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backends/cpu/kernels/conv/conv_columns.h"
#include "backends/cpu/kernels/conv/conv_transpose_columns.h"
#include "backends/cpu/kernels/conv/kn2row.h"
#include "backends/cpu/kernels/gemm/bf16_pairs.h"
#include "backends/cpu/kernels/tile_traits.h"
#include "backends/cpu/tactics/conv_transpose_view.h"
#include "backends/cpu/tactics/conv_view.h"
#include "backends/cpu/tactics/plane_chain.h"
#include "backends/cpu/tactics/plane_kernel.h"
#include "compile/constants/layout_text.h"

namespace camshaft::cpu {

namespace {

template <class Conv, class Plan>
struct ColumnView {
  PlaneChain chain;  // the views point into its body
  Conv conv;
  PartInputs inputs;

  KernelShapes shapes(const KernelShapes& region) const {
    return shapes_as_last(inputs, conv.spatial, chain.first_in, chain.first_out, region);
  }
  Plan plan(const KernelShapes& shapes) const {
    if constexpr (std::is_same_v<Conv, ConvView>) {
      return Plan(conv_shape(conv, shapes));
    } else {
      return Plan(transpose_shape(conv, shapes));
    }
  }
};
using ColumnConvView = ColumnView<ConvView, ColumnConvPlan>;
using ColumnTransposeView = ColumnView<TransposeView, ColumnTransposePlan>;

Kn2rowWeights kn2row_weights_of(const ConvView& view) {
  const Dims& w = view.spatial.weight_dims;
  return {w[0], w[1], view.op.groups, view.spatial.kernel_d() * view.spatial.kernel_h() * view.spatial.kernel_w()};
}

struct Kn2rowView : ColumnView<ConvView, ColumnTransposePlan> {
  ColumnTransposePlan plan(const KernelShapes& shapes) const {
    return ColumnTransposePlan(kn2row_shape(conv_shape(conv, shapes)));
  }
  int64_t packed_floats() const { return kn2row_weights_of(conv).floats(); }
  void pack(const float* oihw, float* packed) const { pack_kn2row_weights(kn2row_weights_of(conv), oihw, packed); }
};

template <class View, class Conv>
std::optional<View> view_columns(const RegionView& region, PlaneChain chain, std::optional<Conv> conv) {
  if (!chain.reads_first(region, conv->spatial) || !chain.writes_first(region) || !conv->spatial.epilogue.is_plain())
    return std::nullopt;
  std::optional<PartInputs> inputs = chain.inputs(conv->spatial);
  if (!inputs) return std::nullopt;
  return View{std::move(chain), std::move(*conv), std::move(*inputs)};
}

std::optional<ColumnConvView> view_column_conv(const RegionView& region) {
  std::optional<PlaneChain> chain = view_plane_chain(region);
  if (!chain) return std::nullopt;
  std::optional<ConvView> conv = view_conv(chain->part(region));
  if (!conv) return std::nullopt;
  ConvShape s;
  s.groups = conv->op.groups;
  s.out_channels = conv->spatial.weight_dims[0];
  s.in_channels = conv->spatial.weight_dims[1] * s.groups;
  s.kernel_d = conv->spatial.kernel_d();
  s.kernel_h = conv->spatial.kernel_h();
  s.kernel_w = conv->spatial.kernel_w();
  if (!ColumnConvPlan::fits(s)) return std::nullopt;
  return view_columns<ColumnConvView>(region, std::move(*chain), std::move(conv));
}

// What kn2row adds for each tap of an output, columns copy for each tap of an input.
std::optional<Kn2rowView> view_kn2row(const RegionView& region) {
  std::optional<PlaneChain> chain = view_plane_chain(region);
  if (!chain) return std::nullopt;
  std::optional<ConvView> conv = view_conv(chain->part(region));
  if (!conv || std::any_of(conv->op.strides.begin(), conv->op.strides.end(), [](int64_t s) { return s != 1; }))
    return std::nullopt;
  const Kn2rowWeights weights = kn2row_weights_of(*conv);
  if (weights.taps == 1 || weights.out_channels / weights.groups >= weights.group_channels) return std::nullopt;
  return view_columns<Kn2rowView>(region, std::move(*chain), std::move(conv));
}

std::optional<ColumnTransposeView> view_column_transpose(const RegionView& region) {
  std::optional<PlaneChain> chain = view_plane_chain(region);
  if (!chain) return std::nullopt;
  std::optional<TransposeView> conv = view_transpose(chain->part(region), true);
  if (!conv) return std::nullopt;
  return view_columns<ColumnTransposeView>(region, std::move(*chain), std::move(conv));
}

constexpr double seconds_per_moved = 1.5e-10;  // an element of a column, in cache
constexpr double seconds_per_strided = 5e-10;
constexpr double seconds_per_copied_run = 1e-9;  // of neighbours in a line, however short
constexpr double seconds_per_added_run = 2e-9;
constexpr double seconds_per_group = 2e-7;  // of an image

// Lanes and rows of register tiles are as full as pixels and outputs fill them.
double waste_of_tiles(double pixels, double outputs) {
  const double lanes = tile_traits().lanes();
  return std::ceil(pixels / lanes) * lanes / pixels * (1 + 0.8 / outputs);
}

// Of the products alone, `rows` of them for each of `pixels`. Products of rounded pairs take half the time, and
// estimates of the transposes around them several times what these do: by these alone a chain would hide them.
template <class Op>
double seconds_of_products(const Op& op, double flops, double pixels, double rows) {
  bool rounds = false;
  if constexpr (std::is_same_v<Op, ops::Conv>) rounds = op.rounding == ops::Rounding::bf16 && has_bf16_products();
  return flops * waste_of_tiles(std::max(pixels, 1.0), rows) * seconds_per_flop * (rounds ? 2 : 1);
}

std::optional<double> estimate_column_conv(const RegionView& region) {
  const auto view = view_column_conv(region);
  if (!view) return std::nullopt;
  const RegionView part = view->chain.part(region);
  const Dims& w = view->conv.spatial.weight_dims;
  const double outputs = static_cast<double>(w[0]) / static_cast<double>(view->conv.op.groups);
  const double pixels =
      elements_at_optimum(region, region.node.outputs[0]) / static_cast<double>(w[0]);  // of the batch
  const double flops = conv_flops(part, view->conv);
  const bool strided = view->conv.op.strides.back() > 1;
  const bool is_moved = element_count(w) != w[0] * w[1] || strided;
  const double taps = static_cast<double>(element_count(w)) / static_cast<double>(w[0] * w[1]);
  const double runs = image_at_optimum(part, part.node.outputs[0]).lines / outputs * static_cast<double>(w[1]) * taps;
  const double moved = is_moved ? flops / (2 * outputs) * (strided ? seconds_per_strided : seconds_per_moved) +
                                      runs * seconds_per_copied_run
                                : 0;
  return seconds_beside_memory(region, seconds_of_products(view->conv.op, flops, pixels, outputs) + moved);
}

// Of products where the image lies, `flops` in all, `channels` terms each, whose shifted sums are the result.
// `rows`: taps of all outputs of a group.
template <class View>
double estimate_shifted_products(const RegionView& region, const View& view, double flops, double channels,
                                 double rows) {
  const RegionView part = view.chain.part(region);
  const ImageSize x = image_at_optimum(part, part.node.inputs[static_cast<size_t>(view.conv.spatial.x)]);
  const ImageSize y = image_at_optimum(part, part.node.outputs[0]);
  constexpr int64_t most_dealt = 4;  // by vectors
  const int64_t stride = view.conv.op.strides.back();
  const double pixels = x.elements / (channels * static_cast<double>(view.conv.op.groups));
  const double added = flops / (2 * channels) * seconds_per_moved + x.lines / channels * rows * seconds_per_added_run +
                       x.batch * static_cast<double>(view.conv.op.groups) * seconds_per_group;
  const double dealt = y.elements * (stride > most_dealt ? seconds_per_strided : seconds_per_moved);
  return seconds_beside_memory(region, seconds_of_products(view.conv.op, flops, pixels, rows) + added + dealt);
}

std::optional<double> estimate_column_transpose(const RegionView& region) {
  const auto view = view_column_transpose(region);
  if (!view) return std::nullopt;
  const Dims& w = view->conv.spatial.weight_dims;
  return estimate_shifted_products(region, *view, transpose_flops(view->chain.part(region), view->conv),
                                   static_cast<double>(w[0]) / static_cast<double>(view->conv.op.groups),
                                   static_cast<double>(element_count(w) / w[0]));
}

std::optional<double> estimate_kn2row(const RegionView& region) {
  const auto view = view_kn2row(region);
  if (!view) return std::nullopt;
  const Dims& w = view->conv.spatial.weight_dims;
  const double rows = static_cast<double>(element_count(w)) / static_cast<double>(w[1] * view->conv.op.groups);
  const RegionView part = view->chain.part(region);
  const ValueId x = part.node.inputs[static_cast<size_t>(view->conv.spatial.x)];
  const double flops = 2 * elements_at_optimum(part, x) * rows;
  return estimate_shifted_products(region, *view, flops, static_cast<double>(w[1]), rows);
}

std::shared_ptr<const Kernel> compile_column_conv(const RegionView& region, PackedConstants&) {
  return std::make_shared<PlaneKernel<ColumnConvView, column_conv>>(*view_column_conv(region), nullptr);
}

std::shared_ptr<const Kernel> compile_column_transpose(const RegionView& region, PackedConstants&) {
  return std::make_shared<PlaneKernel<ColumnTransposeView, column_conv_transpose>>(*view_column_transpose(region),
                                                                                   nullptr);
}

constexpr auto kn2row_numbers = [](auto& weights, auto&& number) {
  number("conv_kn2row o=", weights.out_channels);
  number(" c=", weights.group_channels);
  number(" groups=", weights.groups);
  number(" taps=", weights.taps);
};

std::shared_ptr<const Kernel> compile_kn2row(const RegionView& region, PackedConstants& constants) {
  Kn2rowView view = *view_kn2row(region);
  const RegionView part = view.chain.part(region);
  const std::string layout = layout_text(kn2row_numbers, kn2row_weights_of(view.conv));
  return compile_plane_kernel<Kn2rowView, column_conv_transpose>(std::move(view), part, layout, constants);
}

}  // namespace

const CpuTactic column_conv_tactic{"conv_columns", estimate_column_conv, compile_column_conv};
const CpuTactic column_conv_transpose_tactic{"conv_transpose_columns", estimate_column_transpose,
                                             compile_column_transpose};
const CpuTactic kn2row_conv_tactic{"conv_kn2row", estimate_kn2row, compile_kn2row};

Tensor unpack_kn2row(const PackedConstant& packed, DType dtype, const Dims& dims) {
  Kn2rowWeights w;
  if (!read_layout_text(packed.layout, kn2row_numbers, w)) return {};
  const bool fits = dtype == DType::f32 && dims.size() >= 3 && dims.size() <= 5 && w.out_channels == dims[0] &&
                    w.group_channels == dims[1] && w.groups > 0 && w.out_channels % w.groups == 0 &&
                    w.taps == element_count({dims.begin() + 2, dims.end()});
  if (!fits || packed.bytes.size() != static_cast<size_t>(w.floats()) * sizeof(float)) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_kn2row_weights(w, reinterpret_cast<const float*>(packed.bytes.data()), raw.as_mutable<float>());
  return raw;
}

}  // namespace camshaft::cpu

// What the tactics of convolutions, alone and in chains, have in common.
#pragma once

#include "cpu/kernels/conv.h"
#include "cpu/spatial_view.h"
#include "cpu/tactic.h"
#include "ops/contract.h"

namespace camshaft::cpu {

struct ConvView {
  SpatialView spatial;
  ops::Conv op;

  /// That depthwise() takes it: one channel a group, one kernel a channel.
  bool is_depthwise() const {
    return op.groups > 1 && op.groups == spatial.weight_dims[0] && spatial.weight_dims[1] == 1 &&
           spatial.weight_dims.size() <= 4 && spatial.constant_weights;
  }
  /// One tap over two axes, each pixel once: a matrix product.
  bool is_pointwise() const;
};

/// nullopt unless the region is a channels-last convolution that view_spatial() takes. `residuals`: see
/// ContractEpilogue::make.
std::optional<ConvView> view_conv(const RegionView& region, int residuals = 1);

/// The problem of one set of shapes. Throws Error(invalid_argument) where channels or bias do not fit the weights.
ConvShape conv_shape(const ConvView& view, const KernelShapes& shapes);

ConvWeights conv_weights_of(const ConvView& view);

/// Constant weights as conv() and as depthwise() want them; valid as long as `constants` lives.
const float* pack_conv(const RegionView& region, const ConvView& view, PackedConstants& constants);
const float* pack_depthwise(const RegionView& region, const ConvView& view, PackedConstants& constants);

/// Multiplications and additions at the optimum shapes, those with padding too.
double conv_flops(const RegionView& region, const ConvView& view);

/// Throws Error(corrupt_engine): the layout of packed weights is not one of weights of these sizes.
[[noreturn]] void throw_misfit(const PackedConstant& packed, const Dims& dims);

/// A kernel whose launch is LaunchType(view, packed weights or null, shapes).
template <class LaunchType>
class ConvKernel final : public Kernel {
 public:
  ConvKernel(ConvView view, const float* packed) : view_(std::move(view)), packed_(packed) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<LaunchType>(view_, packed_, shapes);
  }
  bool can_run_in_place(size_t i, size_t) const override { return view_.spatial.epilogue.can_overwrite(i); }
  bool reads_slices(size_t i) const override { return !is_weights(i) && view_.spatial.epilogue.reads_slices(i); }
  bool writes_slices(size_t) const override { return true; }
  bool reads_input(size_t i) const override { return !packed_ || !is_weights(i) || view_.spatial.epilogue.reads(i); }

 private:
  bool is_weights(size_t i) const { return static_cast<int32_t>(i) == view_.spatial.weights; }

  ConvView view_;
  const float* packed_;  // null: the weights are no constant
};

}  // namespace camshaft::cpu

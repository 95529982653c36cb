// A product with weights of few bits, taken apart.
#pragma once

#include <memory>
#include <optional>

#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/epilogue.h"
#include "backends/cuda/tactics/prologue.h"
#include "compile/constants/device_weights.h"
#include "compile/region/contract_view.h"
#include "ir/ops/weight_only.h"

namespace camshaft::cuda {

struct WeightOnlyView {
  ContractView contract;  ///< without its anchor, which is the graph's
  EpilogueView epilogue;
  ops::WeightOnlyMatMul op;
  int32_t x = -1, steps = -1, scale = -1, zero = -1;  ///< region inputs; the latter -1 where there is none
  DType x_dtype = DType::f32, scale_dtype = DType::f32, step_dtype = DType::u4;
  int64_t k = 0, n = 0;
  /// Where all weights have one zero point, it; as steps are stored, those of signed types moved up.
  std::optional<double> one_zero = std::nullopt;
  bool has_real_zeros = false;                    ///< floats that are one for each block and column
  std::optional<Prologue> before = std::nullopt;  ///< what computes the rows of x, which is -1 then

  int bits() const { return bit_width(step_dtype); }
  /// By how much steps are moved up.
  int moved() const { return is_signed(step_dtype) ? 1 << (bits() - 1) : 0; }
  bool is_one_block() const { return op.block >= k; }
  int64_t blocks() const { return is_one_block() ? 1 : (k + op.block - 1) / op.block; }
  int64_t chunks() const { return (k * bits() + 255) / 256; }  ///< of StepFragments
  /// Of blocks, from one tile of 16 columns to the next.
  int64_t pitch() const { return is_one_block() ? 1 : (chunks() * (16 / bits()) - 1) / matrices_of_block() + 1; }
  /// Of 16 along k each, that have a scale of their own.
  int64_t matrices_of_block() const { return is_one_block() ? chunks() * (16 / bits()) : op.block / 16; }
  /// Whether kernels look at region input `i`: not at weights, which they have in their own layout.
  bool reads_input(size_t i) const {
    const auto input = static_cast<int32_t>(i);
    const bool is_laid_out = input == steps || input == scale || (input == zero && !one_zero);
    return !is_laid_out || epilogue.reads(i) || (before && before->reads(i));
  }
  /// Whether the tensor cores can multiply steps: zero points are among them.
  bool has_whole_zeros() const;
};

/// Products with constant weights in blocks of a multiple of 16, or in one a column, and an epilogue that can be
/// generated; nullopt for others.
std::optional<WeightOnlyView> view_weight_only(const RegionView& region);

/// The same of a chain of a pointwise layer and such a product, with both.
std::optional<WeightOnlyView> view_chained_weight_only(const RegionView& chain);

/// Rows of X at the shapes that tactics are chosen for.
double rows_at_optimum(const RegionView& region, const WeightOnlyView& view);

/// The weights on a device, as compile/constants/step_fragments.h lays them out.
struct DeviceSteps {
  DeviceWeights steps, scales, zeros;  ///< the latter empty where there is one for all
};
std::shared_ptr<const DeviceSteps> bring_steps(const RegionView& region, const WeightOnlyView& view,
                                               const Workshop& workshop, PackedConstants& constants);

}  // namespace camshaft::cuda

// Epilogues of products of 8-bit numbers: what the kernel does with its sums in registers, and what a program does.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/kernels/gemm/int8_gemm.h"
#include "backends/cpu/kernels/pointwise/byte_table.h"
#include "backends/cpu/tactics/contract_epilogue.h"
#include "compile/region/peel_scale.h"

namespace camshaft::cpu {

class IntegerEpilogue {
 public:
  /// nullopt when some type or function has no loop.
  static std::optional<IntegerEpilogue> make(const RegionView& region, const ContractView& view);

  /// Whether region input `i` is among what is added, scaled and so on behind the product.
  bool reads(size_t i) const;
  /// Whether the sums go to a program of their own.
  bool gives_blocks() const { return result_ == Int8Result::sums && rest_; }

 private:
  friend class BoundIntegerEpilogue;
  // One number, or a region input (of one element, or one a column).
  struct Operand {
    int32_t input = -1;
    float number = 0;
  };

  // Takes an epilogue whose result is rounded behind what the kernel has in f32, an activation for one.
  bool take_activation(const RegionView& region, const ContractView& view, const EpilogueView& whole);

  Int8Result result_ = Int8Result::sums;
  Operand scale_;
  StepsOfSum steps_;
  std::shared_ptr<const ByteTable> table_;  // that they are looked up in, or null
  int32_t addend_ = -1;                     // region input
  bool addend_is_signed_ = false;
  std::optional<ContractEpilogue> rest_;  // behind the scale; or of the sums themselves
};

/// The epilogue for concrete shapes.
class BoundIntegerEpilogue {
 public:
  /// `columns`: of the whole result. The shapes are the region's.
  BoundIntegerEpilogue(const IntegerEpilogue& epilogue, const KernelShapes& shapes, int64_t columns);

  /// Everything of the problem that is about its result, which is the region's output 0.
  void bind(const LaunchArguments& arguments, Int8Problem& problem);

 private:
  // Fills in what becomes of sums that end as steps.
  void bind_steps(const LaunchArguments& arguments, Int8Problem& problem) const;

  const IntegerEpilogue& epilogue_;
  bool one_scale_ = true;
  std::vector<float> scale_;  // a column, and as many more as a panel may read
  int64_t ldc_, addend_ld_ = 0;
  std::optional<BoundEpilogue> rest_;
};

}  // namespace camshaft::cpu

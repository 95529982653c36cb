// A plan with its symbols bound: concrete shapes, prepared kernels, arena offsets.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "compile/plan/plan.h"

namespace camshaft {

/// What a bound plan keeps from run to run at most, on all devices together. Tables of positions and masks take some
/// megabytes (a mask of f32 for 4096 tokens all of it).
constexpr int64_t most_kept_bytes = int64_t{64} << 20;

/// Everything that depends on the input shapes and not on the data; made once for each set of shapes.
///
/// Invariant steps (find_invariant_steps()) are hoisted out of the runs: they run once, in the order of the plan,
/// before all others. What others read of them is kept in memory of its own; the rest lies in the arena, and is gone
/// when they are done. Where more than most_kept_bytes would be kept, those with the largest results run each time like
/// others.
class BoundPlan {
 public:
  /// Throws Error(invalid_argument) when the shapes contradict each other.
  BoundPlan(const Plan& plan, SymbolBindings symbols, int threads);

  const SymbolBindings& symbols() const { return symbols_; }
  /// Dims of a value; empty and known() false where only running can tell.
  const Dims& dims(int32_t value) const { return dims_[static_cast<size_t>(value)]; }
  bool known(int32_t value) const { return known_[static_cast<size_t>(value)]; }
  size_t bytes(int32_t value) const { return bytes_[static_cast<size_t>(value)]; }
  /// Bytes from the start of its root to the value: not 0 for slices.
  int64_t shift(int32_t value) const { return shifts_[static_cast<size_t>(value)]; }
  /// Elements from row to row of a slice; 0 for dense values.
  int64_t row_stride(int32_t value) const { return row_strides_[static_cast<size_t>(value)]; }
  /// Null for steps that must wait for data-dependent sizes.
  Launch* launch(size_t step) const { return launches_[step].get(); }
  /// In the arena of its device, or in what is kept there; of arena values and of step workspaces.
  int64_t offset(int32_t value) const { return offsets_[static_cast<size_t>(value)]; }
  int64_t workspace_offset(size_t step) const { return workspace_offsets_[step]; }
  /// Of the arena of a device; 0 for one that runs no step.
  int64_t arena_bytes(DeviceId device) const { return arena(device).peak; }
  int64_t arena_lower_bound(DeviceId device) const { return arena(device).lower_bound; }

  /// Whether a step runs once and not in each run.
  bool is_hoisted(size_t step) const { return is_hoisted_[step]; }
  bool hoists() const { return hoists_; }
  /// Whether a value with storage is kept from run to run.
  bool is_kept(int32_t value) const { return is_kept_[static_cast<size_t>(value)]; }
  /// Of the memory of a device for what is kept.
  int64_t kept_bytes(DeviceId device) const { return arena(device).kept; }
  int64_t kept_bytes() const;

 private:
  void bind_values(const Plan& plan);
  void bind_slices(const Plan& plan);
  void prepare_steps(const Plan& plan, int threads);
  void hoist(const Plan& plan);
  /// Leaves those of is_hoisted_ that can be.
  void settle_hoisted(const Plan& plan);
  /// What steps that are not hoisted read of those that are.
  std::vector<int32_t> values_to_keep(const Plan& plan) const;
  void plan_arena(const Plan& plan, DeviceId device);

  SymbolBindings symbols_;
  std::vector<Dims> dims_;
  std::vector<bool> known_;
  std::vector<size_t> bytes_;
  std::vector<int64_t> shifts_, row_strides_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<bool> is_hoisted_;  // each step
  std::vector<bool> is_kept_;     // each value
  bool hoists_ = false;
  std::vector<int64_t> offsets_, workspace_offsets_;
  struct Arena {
    int64_t peak = 0, lower_bound = 0, kept = 0;
  };
  Arena arena(DeviceId device) const {
    const auto found = arenas_.find(device);
    return found == arenas_.end() ? Arena() : found->second;
  }
  std::map<DeviceId, Arena> arenas_;
};

/// Bytes of a dense tensor in memory; strings and containers count as the objects they are. Throws
/// Error(invalid_argument) on overflow.
size_t operand_bytes(DType dtype, const Dims& dims);
/// Concrete operand shapes of a step under bindings.
KernelShapes kernel_shapes(const Plan& plan, const PlanStep& step, const SymbolBindings& symbols, int threads);

}  // namespace camshaft

// How a family of CPU kernels offers itself: one CpuTactic value a way of running a region, all listed in backend.cpp.
#pragma once

#include <optional>
#include <string_view>

#include "compile/backend.h"

namespace camshaft::cpu {

struct CpuTactic {
  std::string_view name;
  /// Expected seconds on one thread at the optimum shapes; nullopt when this tactic cannot run the region. Must hold
  /// for every value of the symbols: a kernel that was offered never refuses a shape.
  std::optional<double> (*estimate)(const RegionView& region);
  std::shared_ptr<const Kernel> (*compile)(const RegionView& region, PackedConstants& constants);
  bool approximate = false;  ///< see Tactic
};

/// What one core is assumed to do, for estimates: 100 GFLOP/s of f32 FMA, 10 GB/s of memory. Only ratios matter.
constexpr double seconds_per_flop = 1e-11;
constexpr double seconds_per_byte = 1e-10;
/// Cost of a kernel's start: the barrier and its set-up.
constexpr double seconds_per_launch = 1e-6;

/// A size at the optimum shapes; symbols without a value count 1.
double size_at_optimum(const RegionView& region, const Dim& dim);
/// Elements of a value at the optimum shapes.
double elements_at_optimum(const RegionView& region, ValueId id);
/// Bytes of all operands of the region at the optimum shapes.
double bytes_at_optimum(const RegionView& region);

}  // namespace camshaft::cpu

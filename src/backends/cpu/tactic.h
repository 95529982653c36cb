// How a family of CPU kernels offers itself: one CpuTactic value a way of running a region, all listed in backend.cpp.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "compile/backend.h"
#include "compile/optimum.h"

namespace camshaft::cpu {

/// Offers must hold for every value of the symbols: a kernel that was offered refuses only what the operator itself
/// does, and sizes beyond what it counts in (images of 2^31 pixels, say).
class CpuTactic {
 public:
  using Estimate = std::optional<double> (*)(const RegionView& region);
  using Compile = std::shared_ptr<const Kernel> (*)(const RegionView& region, PackedConstants& constants);
  using Offers = std::vector<TacticOffer> (*)(const RegionView& region);
  using CompileVariant = std::shared_ptr<const Kernel> (*)(const RegionView& region, const TacticParameters& parameters,
                                                           PackedConstants& constants);

  /// A tactic without variants. `estimate` gives TacticOffer::seconds; nullopt when it cannot run the region.
  constexpr CpuTactic(std::string_view name, Estimate estimate, Compile compile)
      : name_(name), estimate_(estimate), compile_(compile) {}
  /// A tactic with variants: `offers` lists those that can run the region, the best guess first (measurements that tie
  /// go to the earlier one); `compile` is given the parameters of one of them.
  constexpr CpuTactic(std::string_view name, Offers offers, CompileVariant compile)
      : name_(name), offers_(offers), compile_variant_(compile) {}

  std::string_view name() const { return name_; }
  std::vector<TacticOffer> offers(const RegionView& region) const;
  /// The kernel of one of offers(region).
  std::shared_ptr<const Kernel> compile(const RegionView& region, const TacticParameters& parameters,
                                        PackedConstants& constants) const;

 private:
  std::string_view name_;
  Estimate estimate_ = nullptr;
  Compile compile_ = nullptr;
  Offers offers_ = nullptr;
  CompileVariant compile_variant_ = nullptr;
};

/// What one core is assumed to do, for estimates: 100 GFLOP/s of f32 FMA, 10 GB/s of memory. Only ratios matter.
constexpr double seconds_per_flop = 1e-11;
constexpr double seconds_per_byte = 1e-10;
/// Cost of a kernel's start: the barrier and its set-up.
constexpr double seconds_per_launch = 1e-6;

/// What rounding an operand to bf16 takes, in a pass of its own.
double rounding_seconds(const RegionView& region, int32_t input);

}  // namespace camshaft::cpu

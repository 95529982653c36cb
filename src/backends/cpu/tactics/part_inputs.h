// Which of a region's operands a convolution in it reads: what the tactics of chains have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/tactics/spatial_view.h"

namespace camshaft::cpu {

class PartInputs {
 public:
  /// `of[i]` is the operand of the region that the convolution's input i is.
  explicit PartInputs(std::vector<int32_t> of) : of_(std::move(of)) {}
  static constexpr int32_t omitted = -1, from_inside = -2;

  /// Of a node in the body of a chain. Where `made` is a value, the node's image must be it, and its epilogue must not
  /// read it: then the image is from inside, or `instead`, if that is a value. nullopt when an input is neither that
  /// nor an operand of the chain.
  static std::optional<PartInputs> of_part(const Graph& body, const Node& node, const SpatialView& view,
                                           ValueId made = no_value, ValueId instead = no_value);

  size_t size() const { return of_.size(); }
  int32_t operator[](size_t i) const { return of_[i]; }

  /// The region's symbols, threads and operands as the convolution's, whose outputs are left open. `inside`: the shape
  /// of what comes from inside.
  KernelShapes shapes(const KernelShapes& region, const OperandShape& inside = {}) const;

  /// The convolution's inputs among the region's; null for what is omitted or from inside. As many as size().
  void bind(std::span<const std::byte* const> region, std::span<const std::byte*> inputs) const;

  /// Whether holds(own) wherever the convolution's input `own` is the region's operand i.
  template <class Predicate>
  bool all_uses(size_t i, Predicate&& holds) const {
    for (size_t own = 0; own < of_.size(); ++own)
      if (of_[own] == static_cast<int32_t>(i) && !holds(own)) return false;
    return true;
  }

 private:
  std::vector<int32_t> of_;
};

}  // namespace camshaft::cpu

// Operators over maps. A Tensor of DType::map holds its keys and its values, see ir/tensor.h.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (x [n, k] or [k], keys [k] of i64 or strings) -> sequence of n maps (one for a vector), from each key to the element
/// of the row in its column. The keys of a map ascend; of equal ones the last counts.
struct RowsToMaps {
  static constexpr std::string_view name = "rows_to_maps";
  static constexpr Traits traits = opaque_traits;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const RowsToMaps&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (map) -> its keys [n], ascending, and their values [n]. Of equal keys, which a map from outside may have, the last
/// counts.
struct MapEntries {
  static constexpr std::string_view name = "map_entries";
  static constexpr Traits traits = opaque_traits;
  static constexpr bool takes_containers = true;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const MapEntries&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops

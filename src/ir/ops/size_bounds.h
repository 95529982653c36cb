// How large sizes can be that only running tells.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ir/graph.h"

namespace camshaft::ops {

/// Of a graph: the sizes that operators choose by their data are no larger than what they choose from. NonZero, Unique,
/// NonMaxSuppression, TopK, and slices and parts by data are known so; nothing is known of others.
class SizeBounds {
 public:
  /// `symbols`: the sizes of the graph's inputs.
  SizeBounds(const Graph& graph, const SymbolBindings& symbols);

  /// The most that a size can be; nullopt where nothing tells.
  std::optional<int64_t> of(const Dim& size) const;

 private:
  void note(const Graph& graph, const Node& node);
  void note(const std::string& value, size_t axis, std::optional<int64_t> most);
  std::optional<int64_t> elements(const Shape& shape) const;

  std::map<std::string, Dim, std::less<>> known_;
};

}  // namespace camshaft::ops

// Means and variances over the last axes of a value, as exporters spell them.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "ops/reduce.h"
#include "optimize/match.h"

namespace camshaft {

/// A mean with kept dims over the last axes.
struct Mean {
  ValueId of = no_value;
  int64_t axis = 0;      ///< the first of the axes
  bool squares = false;  ///< it is of the squares of `of`
  bool operator==(const Mean&) const = default;
};

/// epsilon + the mean of the squares of `of`, or of its distances from its mean, over the axes from `axis` on.
struct Variance {
  ValueId of = no_value;
  int64_t axis = 0;
  double epsilon = 0;
  bool is_centred = false;
};

class MomentMatcher {
 public:
  MomentMatcher(const Graph& graph, Producers& producers) : graph_(graph), producers_(producers) {}

  /// As the operator, or as a sum over a known number of elements, divided by it.
  std::optional<Mean> mean_of(ValueId id);
  /// The mean of x in x − mean(x).
  std::optional<Mean> centred(ValueId id);
  /// Of squares; or E[x²] − E[x]², which loses digits where the mean is large. Either may be clamped at 0.
  std::optional<Variance> variance_of(ValueId id);

 private:
  std::optional<Mean> reduced(ops::ReduceKind kind, ValueId id);
  std::optional<Mean> mean_of_squares(ValueId id);
  std::optional<Mean> difference_of_moments(ValueId id);
  std::optional<double> elements_from(int64_t axis, ValueId id) const;
  ValueId not_clamped_at_zero(ValueId id);

  const Graph& graph_;
  Producers& producers_;
};

}  // namespace camshaft

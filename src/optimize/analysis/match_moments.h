// Means and variances over the last axes of a value, as exporters spell them.
#pragma once

#include <optional>

#include "ir/graph.h"
#include "ir/ops/reduce.h"
#include "optimize/analysis/match.h"

namespace camshaft {

/// A mean with kept dims over the last axes.
struct Mean {
  ValueId of = no_value;
  int64_t axis = 0;      ///< the first of the axes
  bool squares = false;  ///< it is of the squares of `of`
  bool operator==(const Mean&) const = default;
};

/// count · (epsilon + v), with v the mean of the squares of `of`, or of its distances from its mean, over the axes from
/// `axis` on; clamped: count · max(epsilon, v).
struct Variance {
  ValueId of = no_value;
  int64_t axis = 0;
  double epsilon = 0;
  bool is_centred = false;
  bool is_clamped = false;
  double count = 1;  ///< the elements, if they were summed
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
  /// v of √v; also max(‖x‖, ε), the root of max(Σ x², ε²).
  std::optional<Variance> variance_of_root(ValueId id);

 private:
  std::optional<Mean> reduced(ops::ReduceKind kind, ValueId id);
  std::optional<Mean> mean_of_squares(ValueId id);
  std::optional<Variance> squares_of(ValueId id);
  std::optional<Variance> clamped(ValueId value, ValueId bound, bool of_root);
  std::optional<Mean> difference_of_moments(ValueId id);
  std::optional<double> elements_from(int64_t axis, ValueId id) const;
  ValueId not_clamped_at_zero(ValueId id);

  const Graph& graph_;
  Producers& producers_;
};

}  // namespace camshaft

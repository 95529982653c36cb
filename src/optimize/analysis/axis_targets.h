// How the axes of one tensor lead into another that it is broadcast to or moved from, for AccessSpace.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "optimize/analysis/access_space.h"

namespace camshaft {

/// How the dims of a result lead into an operand that broadcasts to it. Where only running tells whether a dim of the
/// operand is 1 or the result's, its stride has a factor that is 0 or 1.
std::vector<AccessSpace::Target> broadcast_targets(const Shape& result, const Shape& operand);
/// The same for the batch dims of a product: the last two are left alone.
std::vector<AccessSpace::Target> batch_targets(const Shape& result, const Shape& operand);
/// How the dims of a moved tensor lead to the tensor that it is a view of. nullopt for other operators than transposes,
/// slices and expansions.
std::optional<std::vector<AccessSpace::Target>> backward_targets(const Node& move, const Shape& from, const Shape& to);

}  // namespace camshaft

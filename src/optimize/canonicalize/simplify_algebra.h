#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Removes arithmetic that changes nothing and replaces costly functions by cheap ones: x+0, x·1, division by powers of
/// two, pow with small exponents, chains of clips, scalar factors and casts, select of a constant. Exact but for
/// x·c1·c2 → x·(c1·c2), which rounds once instead of twice, pow(x, 3) → x·x·x, and the sign of zeros (x+0).
void simplify_algebra(Graph& graph, const PassContext& context);
inline constexpr Pass simplify_algebra_pass = {
    .name = "simplify_algebra", .run = simplify_algebra, .before = {Fact::regions}};

}  // namespace camshaft

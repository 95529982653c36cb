// If with kernels in both branches.
#pragma once

#include <memory>

#include "compile/lower.h"

namespace camshaft {

/// A kernel that runs the taken branch of an If as a plan of its own. Null where sizes inside, or of the results, are
/// known only when running, or where a branch does not compile: then the reference evaluation runs it. Tactics of the
/// branches are not recorded, and none deviates (see Deviation); weights are packed when the kernel is made. `bound`
/// are symbols that have values whenever the If runs, besides those of its operands.
std::shared_ptr<const Kernel> make_branch_kernel(const RegionView& region, const Backend& backend,
                                                 const std::set<std::string, std::less<>>& bound,
                                                 const Cancellation& cancellation);

}  // namespace camshaft

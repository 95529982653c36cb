// Layers with a kernel for each of several sizes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compile/kernel.h"
#include "ir/symbols.h"

namespace camshaft {

/// The kernel of one profile, and the sizes that it was chosen for.
struct SizedChoice {
  SymbolBindings optimum;
  std::shared_ptr<const Kernel> kernel;
};

/// One kernel of several: for each set of shapes the one whose optimum is nearest, by the ratios of the sizes named
/// `symbols`, the first of equally near ones. The kernels run in the same place, and none of them has dynamic outputs.
std::shared_ptr<const Kernel> make_sized_kernel(std::vector<SizedChoice> choices, std::vector<std::string> symbols);

}  // namespace camshaft

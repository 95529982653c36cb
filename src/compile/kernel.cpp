#include "compile/kernel.h"

namespace camshaft {

std::vector<Tensor> Kernel::run_dynamic(const std::vector<Tensor>&, const SymbolBindings&, ThreadPool&,
                                        const Cancellation*) const {
  throw Error(ErrorCode::internal, "this kernel's output shapes are known before it runs");
}

}  // namespace camshaft

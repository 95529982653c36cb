#include "runtime/backends.h"

#include <fmt/format.h>

#include "backends/cpu/backend.h"
#include "backends/cuda/backend.h"

namespace camshaft {

std::shared_ptr<const Backend> find_backend(const std::string& kind) {
  if (kind == "cpu") return cpu::backend();
  if (kind == "cuda") return cuda::backend(cpu::backend());
  throw Error(ErrorCode::unsupported, fmt::format("this build has no device of kind '{}'; it has: cpu, cuda", kind));
}

}  // namespace camshaft

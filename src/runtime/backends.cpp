#include "runtime/backends.h"

#include <fmt/format.h>

#include "cpu/backend.h"

namespace camshaft {

std::vector<std::shared_ptr<const Backend>> all_backends() {
  return {cpu::backend()};
}

std::shared_ptr<const Backend> find_backend(const std::string& kind) {
  std::string known;
  for (auto& backend : all_backends()) {
    if (backend->device().kind == kind) return backend;
    known += (known.empty() ? "" : ", ") + backend->device().kind;
  }
  throw Error(ErrorCode::unsupported, fmt::format("this build has no device of kind '{}'; it has: {}", kind, known));
}

}  // namespace camshaft

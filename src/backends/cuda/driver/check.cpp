#include "backends/cuda/driver/check.h"

#include <fmt/format.h>

#include "base/error.h"

namespace camshaft::cuda {

void check(const api::Driver& driver, api::Result result, std::string_view action) {
  if (result == api::success) return;
  const char *name = nullptr, *text = nullptr;
  driver.cuGetErrorName(result, &name);
  driver.cuGetErrorString(result, &text);
  throw Error(result == api::error_out_of_memory ? ErrorCode::out_of_memory : ErrorCode::internal,
              fmt::format("CUDA failed in {}: {} ({})", action, name ? name : std::to_string(result),
                          text ? text : "unknown to this driver"));
}

}  // namespace camshaft::cuda

// Results of the driver's functions as errors.
#pragma once

#include <string_view>

#include "backends/cuda/driver/c_api.h"

namespace camshaft::cuda {

/// Throws Error when `result` is a failure: out_of_memory when the device has no memory left, internal otherwise. The
/// message says what was being done (`action`, "copying to the device") and the driver's name and words for the
/// failure.
void check(const api::Driver& driver, api::Result result, std::string_view action);

}  // namespace camshaft::cuda

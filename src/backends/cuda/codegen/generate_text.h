// The kernels of operators that make tensors out of numbers, and of running totals, as CUDA C++ text.
#pragma once

#include <string>

#include "base/dtype.h"

namespace camshaft::cuda {

/// The kernels "write_numbers_any", "range_any", "run_line_any" and "scan_line_any" of one type (see
/// device/generate.cuh).
std::string generate_text(DType dtype);

}  // namespace camshaft::cuda

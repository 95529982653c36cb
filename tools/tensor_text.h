// Tensors and times as text.
#pragma once

#include <string>

#include "camshaft/report.hpp"
#include "camshaft/tensor.hpp"

namespace camshaft::tools {

/// "x: f32[batch, 3, 224, 224]"
std::string to_string(const TensorInfo& info);
/// "[2, 3]"
std::string to_string(const Dims& dims);
/// "min -0.1, mean 0.02, max 3.1" with the numbers of NaNs and infinities, if any; the number of elements of strings.
std::string statistics(const Tensor& tensor);
/// "12.3 ms", "1.20 s", "83 us", "3.42 us".
std::string format_seconds(double seconds);

}  // namespace camshaft::tools

#include "tools/tensor_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace camshaft::tools {

std::string to_string(const TensorInfo& info) {
  return fmt::format("{}: {}", info.name, info.type);
}

std::string to_string(const Dims& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string statistics(const Tensor& tensor) {
  if (tensor.size() == 0) return "empty";
  if (tensor.dtype() == DType::string) return fmt::format("{} strings", tensor.size());
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  int64_t nans = 0, infinities = 0;
  const Tensor wide = tensor.converted(DType::f64);
  for (const double v : std::span(wide.as<double>(), static_cast<size_t>(wide.size()))) {
    if (std::isnan(v)) {
      ++nans;
      continue;
    }
    low = std::min(low, v);
    high = std::max(high, v);
    if (std::isinf(v)) {
      ++infinities;
    } else {
      sum += v;
    }
  }
  const int64_t finite = tensor.size() - nans - infinities;
  std::string out;
  if (nans < tensor.size()) out = fmt::format("min {:.6g}, ", low);
  if (finite > 0) out += fmt::format("mean {:.6g}, ", sum / static_cast<double>(finite));
  if (nans < tensor.size()) out += fmt::format("max {:.6g}, ", high);
  if (infinities > 0) out += fmt::format("{} infinite, ", infinities);
  if (nans > 0) out += fmt::format("{} of {} are NaN, ", nans, tensor.size());
  out.resize(out.size() - 2);
  return out;
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.{}f} us", seconds * 1e6, seconds < 1e-5 ? 2 : 0);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

}  // namespace camshaft::tools

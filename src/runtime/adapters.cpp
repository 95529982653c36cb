#include "runtime/adapters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace camshaft {

namespace {

constexpr std::string_view comma = ", ";

}  // namespace

std::string join_adapters(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, comma));
}

std::vector<std::string> adapters_of(const std::map<std::string, std::string>& metadata) {
  const auto it = metadata.find(std::string(lora_input));
  std::vector<std::string> names;
  if (it == metadata.end()) return names;
  for (size_t at = 0; at <= it->second.size();) {
    const size_t end = std::min(it->second.find(comma, at), it->second.size());
    names.push_back(it->second.substr(at, end - at));
    at = end + comma.size();
  }
  return names;
}

std::string adapter_tensor(std::string_view adapter, std::string_view module, char matrix) {
  return fmt::format("{}/{}.lora_{}.weight", adapter, module, matrix);
}

Tensor padded_to_rank(const Tensor& matrix, const Dims& dims, char which, const std::string& name) {
  const Dims& given = matrix.dims();
  const size_t rank = which == 'A' ? 0 : 1, channels = 1 - rank;
  if (given[channels] != dims[channels])
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' is {}; {} is given", name, to_string(dims), to_string(given)));
  if (given[rank] > dims[rank])
    throw Error(ErrorCode::invalid_argument, fmt::format("'{}' has rank {}: the engine was built with ranks up to {}",
                                                         name, given[rank], dims[rank]));
  Tensor to(DType::f32, dims);
  for (int64_t row = 0; row < given[0]; ++row)
    std::copy_n(matrix.as<float>() + row * given[1], given[1], to.as_mutable<float>() + row * dims[1]);
  return to;
}

void check_adapter(int64_t chosen, const std::vector<std::string>& names) {
  if (chosen >= 0 && static_cast<size_t>(chosen) <= names.size()) return;
  std::string known = "0 (none)";
  for (size_t i = 0; i < names.size(); ++i) known += fmt::format(", {} ({})", i + 1, names[i]);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("input '{}' is {}; the engine's adapters are {}", lora_input, chosen, known));
}

}  // namespace camshaft

#include "backends/cuda/tactics/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "camshaft/error.h"

namespace camshaft::cuda {

Axes::Axes(const Dims& sizes, const Dims& strides) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    if (rank == most_axes)
      throw Error(ErrorCode::unsupported, fmt::format("a layer with more than {} axes that cannot be merged: "
                                                      "choose a tactic of the host for it",
                                                      most_axes));
    size[rank] = Divisor(static_cast<uint32_t>(std::max<int64_t>(sizes[d], 1)));
    stride[rank++] = strides[d];
  }
}

std::vector<std::byte> nest_parameter(const Dims& sizes, const std::vector<Dims>& strides) {
  constexpr size_t header = (sizeof(uint32_t) + most_axes * sizeof(Divisor) + 7) / 8 * 8;
  constexpr size_t row = most_axes * sizeof(int64_t);
  std::vector<std::byte> bytes(header + strides.size() * row);
  for (size_t k = 0; k < strides.size(); ++k) {
    const Axes axes(sizes, strides[k]);
    std::memcpy(bytes.data(), &axes.rank, sizeof axes.rank);
    std::memcpy(bytes.data() + sizeof axes.rank, axes.size, sizeof axes.size);
    std::memcpy(bytes.data() + header + k * row, axes.stride, sizeof axes.stride);
  }
  return bytes;
}

}  // namespace camshaft::cuda

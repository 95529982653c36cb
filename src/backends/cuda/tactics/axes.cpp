#include "backends/cuda/tactics/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/cuda/tactics/narrow.h"
#include "base/error.h"

namespace camshaft::cuda {

Axes axes_of(const Dims& sizes, const Dims& strides) {
  Axes axes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    if (axes.rank == most_axes)
      throw Error(ErrorCode::unsupported, fmt::format("a layer with more than {} axes that cannot be merged: "
                                                      "choose a tactic of the host for it",
                                                      most_axes));
    axes.size[axes.rank] = Divisor(narrow(std::max<int64_t>(sizes[d], 1)));
    axes.stride[axes.rank++] = strides[d];
  }
  return axes;
}

// Each operand more adds a row of strides.
static_assert(sizeof(Nest<2>) == sizeof(Nest<1>) + sizeof(Nest<1>::stride) &&
              offsetof(Nest<2>, stride) == offsetof(Nest<1>, stride));

std::vector<std::byte> nest_parameter(const Dims& sizes, const std::vector<Dims>& strides) {
  constexpr size_t row = sizeof(Nest<1>::stride);
  std::vector<std::byte> bytes(offsetof(Nest<1>, stride) + strides.size() * row);
  for (size_t k = 0; k < strides.size(); ++k) {
    const Axes axes = axes_of(sizes, strides[k]);
    std::memcpy(bytes.data() + offsetof(Nest<1>, rank), &axes.rank, sizeof axes.rank);
    std::memcpy(bytes.data() + offsetof(Nest<1>, size), axes.size, sizeof axes.size);
    std::memcpy(bytes.data() + offsetof(Nest<1>, stride) + k * row, axes.stride, row);
  }
  return bytes;
}

}  // namespace camshaft::cuda

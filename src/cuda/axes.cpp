#include "cuda/axes.h"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace camshaft::cuda

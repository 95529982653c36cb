#include "backends/cuda/tactics/space.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/tactics/narrow.h"

namespace camshaft::cuda {

// Each operand more adds a row of strides.
static_assert(sizeof(Space<2>) == sizeof(Space<1>) + sizeof(Space<1>::stride) &&
              offsetof(Space<2>, stride) == offsetof(Space<1>, stride));

std::vector<std::byte> space_parameter(const ops::LoopNest& nest, int elements) {
  const size_t rank = nest.sizes.size(), operands = nest.strides.size();
  Space<1> space;
  space.rank = narrow(rank - 1);
  space.chunks = 1;
  for (size_t d = 0; d < rank; ++d) {
    space.size[d] = Divisor(narrow(d + 1 == rank ? nest.sizes[d] / elements : nest.sizes[d]));
    space.chunks *= space.size[d].value;
  }
  constexpr size_t row = sizeof space.stride;
  std::vector<std::byte> bytes(offsetof(Space<1>, stride) + operands * row);
  std::memcpy(bytes.data(), &space, offsetof(Space<1>, stride));
  for (size_t k = 0; k < operands; ++k) {
    std::copy(nest.strides[k].begin(), nest.strides[k].end(), space.stride[0]);
    std::memcpy(bytes.data() + offsetof(Space<1>, stride) + k * row, space.stride, row);
  }
  return bytes;
}

}  // namespace camshaft::cuda

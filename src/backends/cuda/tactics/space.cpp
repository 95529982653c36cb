#include "backends/cuda/tactics/space.h"

#include <cstring>

#include "backends/cuda/tactics/divisor.h"

namespace camshaft::cuda {

std::vector<std::byte> space_parameter(const ops::LoopNest& nest, int elements) {
  const size_t rank = nest.sizes.size(), operands = nest.strides.size();
  const size_t header = 2 * sizeof(uint32_t) + most_space_dims * sizeof(Divisor);
  std::vector<std::byte> bytes(header + operands * most_space_dims * sizeof(int64_t));
  const auto put = [&](size_t at, const auto& value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
  uint64_t chunks = 1;
  for (size_t d = 0; d < rank; ++d) {
    const auto size = static_cast<uint32_t>(d + 1 == rank ? nest.sizes[d] / elements : nest.sizes[d]);
    put(2 * sizeof(uint32_t) + d * sizeof(Divisor), Divisor(size));
    chunks *= size;
    for (size_t k = 0; k < operands; ++k)
      put(header + (k * most_space_dims + d) * sizeof(int64_t), static_cast<int64_t>(nest.strides[k][d]));
  }
  put(0, static_cast<uint32_t>(chunks));
  put(sizeof(uint32_t), static_cast<uint32_t>(rank - 1));
  return bytes;
}

}  // namespace camshaft::cuda

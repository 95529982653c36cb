#include "base/default_limits.h"

#include <algorithm>

#include "base/memory_limit.h"

namespace camshaft {

namespace {

constexpr double least_operations = 5e11, of_an_input_byte = 2e4, most_of_inputs = 1.5e12, of_few_bytes = 1e8,
                 many_operations = 3e14, of_many_bytes = 1e5;
constexpr size_t least_bytes = size_t{6} << 30, bytes_per_byte = 16;
constexpr size_t machines_share = 4;

}  // namespace

double default_operations(size_t constant_bytes, double input_bytes) {
  const auto bytes = static_cast<double>(constant_bytes);
  return std::min(of_an_input_byte * input_bytes, most_of_inputs) +
         std::min(least_operations + of_few_bytes * bytes, many_operations + of_many_bytes * bytes);
}

size_t default_memory(size_t constant_bytes) {
  return std::max(least_bytes, largest_buffer() / machines_share) + bytes_per_byte * constant_bytes;
}

}  // namespace camshaft

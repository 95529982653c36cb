#include "backends/cpu/kernels/move/gather.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backends/cpu/kernels/move/element_bytes.h"
#include "base/error.h"

namespace camshaft::cpu {
namespace {

int64_t index_at(const void* indices, bool wide, int64_t k) {
  return wide ? static_cast<const int64_t*>(indices)[k] : static_cast<const int32_t*>(indices)[k];
}

bool check_indices(const char* what, const void* indices, DType type, int64_t count, int64_t size) {
  if (type != DType::i64 && type != DType::i32) {
    throw Error(ErrorCode::invalid_argument,
                std::string(what) + " takes indices of type i64 or i32, not " + std::string(to_string(type)));
  }
  const bool wide = type == DType::i64;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t index = index_at(indices, wide, k);
    if (index >= -size && index < size) continue;
    throw Error(ErrorCode::invalid_argument, std::string(what) + ": index " + std::to_string(index) + " (number " +
                                                 std::to_string(k) + " of " + std::to_string(count) +
                                                 ") is outside the axis of size " + std::to_string(size));
  }
  return wide;
}

}  // namespace

void Gather::run(ThreadPool& pool, const void* in, const void* indices, DType index_type, void* out) const {
  const bool wide = check_indices("gather", indices, index_type, count, size);
  if (outer == 0 || count == 0 || inner_bytes == 0) return;
  const auto* from = static_cast<const char*>(in);
  auto* to = static_cast<char*>(out);
  const auto copy = [&](auto element, int64_t begin, int64_t end) {
    using T = decltype(element);
    const auto bytes = sizeof(T) == 16 ? inner_bytes : static_cast<int64_t>(sizeof(T));
    for (int64_t item = begin; item < end;) {
      // All of one slice of the outer dims: 590,000 elements took 1.5 ms with a division for each.
      const int64_t first = item % count, last = std::min(count, first + end - item);
      const char* slice = from + item / count * size * bytes;
      char* out_row = to + item * bytes;
      for (int64_t k = first; k < last; ++k, out_row += bytes) {
        const int64_t index = index_at(indices, wide, k);
        std::memcpy(out_row, slice + (index < 0 ? index + size : index) * bytes, static_cast<size_t>(bytes));
      }
      item += last - first;
    }
  };
  const int64_t cost = std::max<int64_t>(inner_bytes, 16);
  pool.parallel_for(outer * count, (least_bytes + cost - 1) / cost, [&](int64_t begin, int64_t end) {
    // Single elements move as such; Bytes16 stands for any other size.
    const bool element = inner_bytes == 1 || inner_bytes == 2 || inner_bytes == 4 || inner_bytes == 8;
    with_any_width(element ? inner_bytes : 16, [&](auto e) { copy(e, begin, end); });
  });
}

void GatherElements::run(ThreadPool& pool, const void* in, const void* indices, DType index_type, void* out) const {
  const int rank = static_cast<int>(dims.size());
  int64_t count = 1;
  for (int64_t n : index_dims) count *= n;
  const int64_t size = dims.at(static_cast<size_t>(axis));
  const bool wide = check_indices("gather_elements", indices, index_type, count, size);
  if (count == 0) return;
  with_any_width(width, [&](auto element) {
    using T = decltype(element);
    pool.parallel_for(count, 8192, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        int64_t rest = k, offset = 0, step = 1;
        for (int d = rank; d-- > 0;) {
          const int64_t at = d == axis ? index_at(indices, wide, k) : rest % index_dims[d];
          rest /= index_dims[d];
          offset += (at < 0 ? at + size : at) * step;
          step *= dims[d];
        }
        std::memcpy(static_cast<char*>(out) + k * static_cast<int64_t>(sizeof(T)),
                    static_cast<const char*>(in) + offset * static_cast<int64_t>(sizeof(T)), sizeof(T));
      }
    });
  });
}

}  // namespace camshaft::cpu

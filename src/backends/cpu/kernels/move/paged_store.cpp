#include "backends/cpu/kernels/move/paged_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/pieces.h"

namespace camshaft::cpu {

namespace {

template <class Slot>
void store(const PagedStore& s, const std::byte* rows, const Slot* slots, std::byte* out) {
  for (int64_t i = 0; i < s.count; ++i)
    if (slots[i] >= s.places)
      throw Error(ErrorCode::invalid_argument, fmt::format("row {} goes to slot {} of {}", i, slots[i], s.places));
  // A step has few rows, of a few KB: not worth waking threads.
  for (int64_t i = 0; i < s.count; ++i)
    if (slots[i] >= 0)
      std::memcpy(out + slots[i] * s.row_bytes, rows + i * s.row_bytes, static_cast<size_t>(s.row_bytes));
}

}  // namespace

void PagedStore::run(ThreadPool& pool, const std::byte* cache, const std::byte* rows, const void* slots,
                     DType slot_type, std::byte* out) const {
  if (out != cache) {
    constexpr int64_t grain = 64 * 1024;
    for_pieces(pool, places * row_bytes, grain, [&](int64_t begin, int64_t end) {
      std::memcpy(out + begin, cache + begin, static_cast<size_t>(end - begin));
    });
  }
  if (row_bytes == 0) return;
  if (slot_type == DType::i32) return store(*this, rows, static_cast<const int32_t*>(slots), out);
  store(*this, rows, static_cast<const int64_t*>(slots), out);
}

}  // namespace camshaft::cpu

#include "base/aligned_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/format_bytes.h"
#include "base/memory_limit.h"

namespace camshaft {
namespace {

constexpr size_t huge_page = size_t{2} << 20;

size_t rounded_up(size_t size, size_t to) {
  return (size + to - 1) / to * to;
}

// How much of a buffer, from its start, is to lie in huge pages, which are given 18 times as fast: 36 us for 2 MiB, and
// 660 in small pages (1.3 us each, clearing them included; 1.2 when asked for in one call). Below two of them, rounding
// up would cost more memory than that is worth: what is behind the first stays in small ones.
size_t in_huge_pages(size_t size) {
  return size >= 2 * huge_page ? rounded_up(size, huge_page) : size / huge_page * huge_page;
}

MemoryClaim name_claim(size_t size, std::string_view purpose) {
  try {
    return MemoryClaim(size);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("no memory for {}: {}", purpose, e.what()));
  }
}

}  // namespace

AlignedBuffer::AlignedBuffer(size_t size, std::string_view purpose) : size_(size) {
  if (size == 0) return;
  claim_ = name_claim(size, purpose);
  if (size <= PTRDIFF_MAX - huge_page && size <= largest_buffer()) {
    const size_t huge = in_huge_pages(size), alignment = huge > 0 ? huge_page : 64;
    data_ = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded_up(size, alignment)));
    if (data_ && huge > 0) madvise(data_, huge, MADV_HUGEPAGE);  // a wish; failing costs only speed
  }
  if (!data_) {
    throw Error(ErrorCode::out_of_memory, fmt::format("could not allocate {} ({} bytes) for {}; free some memory, or "
                                                      "use smaller shapes or a smaller batch",
                                                      format_bytes(size), size, purpose));
  }
}

AlignedBuffer::~AlignedBuffer() {
  std::free(data_);
}

}  // namespace camshaft

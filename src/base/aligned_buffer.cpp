#include "base/aligned_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "base/format_bytes.h"
#include "base/memory_limit.h"
#include "camshaft/error.h"

namespace camshaft {
namespace {

constexpr size_t huge_page = size_t{2} << 20;
// Below two huge pages, rounding up would cost more memory than fewer page-table misses are worth.
constexpr size_t huge_from = 2 * huge_page;

}  // namespace

AlignedBuffer::AlignedBuffer(size_t size, std::string_view purpose) : size_(size) {
  if (size == 0) return;
  const size_t alignment = size >= huge_from ? huge_page : 64;
  if (size <= PTRDIFF_MAX - alignment && size <= largest_buffer()) {
    const size_t rounded = (size + alignment - 1) / alignment * alignment;
    data_ = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
    if (data_ && alignment == huge_page) madvise(data_, rounded, MADV_HUGEPAGE);  // a wish; failing costs only speed
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

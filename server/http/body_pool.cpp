#include "server/http/body_pool.h"

#include <bit>
#include <new>

#include "server/core/status.h"

namespace camshaft::server {

namespace {
constexpr std::align_val_t body_alignment{64};
constexpr size_t smallest_body = 12, largest_body = 40;  // 2^12 to 2^40 bytes
constexpr uint64_t kept_bytes = 256u << 20;
}  // namespace

struct BodyPool::Shelf {
  std::mutex mutex;
  std::array<std::vector<std::byte*>, largest_body + 1> free;  // by the logarithm of their size
  uint64_t kept = 0;
  std::shared_ptr<RequestMemory> memory;

  ~Shelf() {
    for (auto& row : free)
      for (std::byte* buffer : row) operator delete(buffer, body_alignment);
  }

  void give_back(std::byte* buffer, size_t log) {
    const uint64_t size = uint64_t{1} << log;
    memory->give_back(size);
    {
      const std::lock_guard lock(mutex);
      if (kept + size <= kept_bytes) {
        kept += size;
        free[log].push_back(buffer);
        return;
      }
    }
    operator delete(buffer, body_alignment);
  }
};

BodyPool::BodyPool(std::shared_ptr<RequestMemory> memory) : shelf_(std::make_shared<Shelf>()) {
  shelf_->memory = std::move(memory);
}

Body BodyPool::take(uint64_t size) {
  const size_t log = std::max<size_t>(smallest_body, std::bit_width(std::max<uint64_t>(size, 1) - 1));
  if (log > largest_body)
    throw ServerError(StatusCode::resource_exhausted, "a body of " + std::to_string(size) + " bytes");
  const uint64_t taken = uint64_t{1} << log;
  std::byte* buffer = nullptr;
  shelf_->memory->take(taken);
  {
    const std::lock_guard lock(shelf_->mutex);
    if (auto& row = shelf_->free[log]; !row.empty()) {
      buffer = row.back();
      row.pop_back();
      shelf_->kept -= taken;
    }
  }
  if (buffer == nullptr) {
    buffer = static_cast<std::byte*>(operator new(taken, body_alignment, std::nothrow));
    if (buffer == nullptr) {
      shelf_->memory->give_back(taken);
      throw ServerError(StatusCode::resource_exhausted,
                        "there is no memory for a body of " + std::to_string(size) + " bytes");
    }
  }
  std::shared_ptr<std::byte> owner(buffer, [shelf = shelf_, log](std::byte* held) { shelf->give_back(held, log); });
  return {{buffer, size}, std::move(owner)};
}

}  // namespace camshaft::server

#include "server/core/python/shared_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "server/core/status.h"

namespace camshaft::server {
namespace {

constexpr uint64_t least_segment = uint64_t{1} << 20;

std::atomic_ref<std::byte> in_use(const SharedSegment& segment, uint64_t offset) {
  return std::atomic_ref<std::byte>(segment.span()[offset]);
}

std::span<std::byte> map_segment(int descriptor, uint64_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    const std::string why = std::strerror(errno);
    close(descriptor);
    throw ServerError(StatusCode::resource_exhausted,
                      "cannot map " + std::to_string(size) + " bytes to share with a Python process: " + why);
  }
  return {static_cast<std::byte*>(memory), size};
}

struct SharedBlockOwner {
  std::shared_ptr<SharedSegment> segment;
  uint64_t offset;
  ~SharedBlockOwner() { in_use(*segment, offset).store(std::byte{0}, std::memory_order_release); }
};

}  // namespace

std::shared_ptr<SharedSegment> SharedSegment::create(uint64_t size) {
  const int descriptor = memfd_create("camshaft-inputs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(size)) != 0 ||
      fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    const std::string why = std::strerror(errno);
    if (descriptor >= 0) close(descriptor);
    throw ServerError(StatusCode::resource_exhausted,
                      "no memory of " + std::to_string(size) + " bytes to share with a Python process: " + why);
  }
  return std::shared_ptr<SharedSegment>(new SharedSegment(descriptor, map_segment(descriptor, size)));
}

std::shared_ptr<SharedSegment> SharedSegment::adopt(int descriptor, uint64_t size) {
  struct stat status = {};
  const int seals = fcntl(descriptor, F_GET_SEALS);
  const bool good = size > 0 && fstat(descriptor, &status) == 0 && static_cast<uint64_t>(status.st_size) >= size &&
                    seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  if (!good) {
    close(descriptor);
    throw ServerError(StatusCode::internal, "the memory that a Python process shares is not what it says");
  }
  return std::shared_ptr<SharedSegment>(new SharedSegment(descriptor, map_segment(descriptor, size)));
}

SharedSegment::~SharedSegment() {
  munmap(span_.data(), span_.size());
  close(descriptor_);
}

Bytes shared_block(const std::shared_ptr<SharedSegment>& segment, uint64_t offset, uint64_t size) {
  const uint64_t end = segment->span().size();
  if (offset > end || end - offset < shared_block_header || end - offset - shared_block_header < size)
    throw ServerError(StatusCode::internal, "a Python process gave a tensor that lies beyond its memory");
  return {segment->span().subspan(offset + shared_block_header, size),
          std::shared_ptr<const SharedBlockOwner>(new SharedBlockOwner{segment, offset})};
}

SharedArena::Place SharedArena::find(uint64_t need) {
  Place place;
  for (auto& [number, segment] : segments_) {
    const SharedSegment& memory = *segment.memory;
    std::erase_if(segment.blocks, [&memory](const auto& block) {
      return in_use(memory, block.first).load(std::memory_order_acquire) == std::byte{0};
    });
    if (place.found) continue;
    uint64_t end = 0;
    for (const auto& [offset, size] : segment.blocks) {
      if (offset - end >= need) break;
      end = offset + size;
    }
    if (segment.memory->span().size() - end >= need) {
      const auto after = segment.blocks.lower_bound(end);
      if (after == segment.blocks.end() || after->first - end >= need) place = {number, end, true};
    }
  }
  return place;
}

SharedArena::Block SharedArena::allocate(uint64_t size) {
  const uint64_t need = shared_block_header + (size + 63) / 64 * 64;
  const std::lock_guard lock(mutex_);
  Place place = find(need);
  if (!place.found) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t bytes = (std::max(least_segment, 2 * need) + page - 1) / page * page;
    std::shared_ptr<SharedSegment> memory = SharedSegment::create(bytes);
    place = {next_++, 0, true};
    tell_.added(place.segment, *memory);
    segments_[place.segment].memory = std::move(memory);
  }
  drop_empty(place.segment);
  Segment& segment = segments_[place.segment];
  segment.blocks.emplace(place.offset, need);
  in_use(*segment.memory, place.offset).store(std::byte{1}, std::memory_order_release);
  return {place.segment, place.offset, segment.memory->span().subspan(place.offset + shared_block_header, size)};
}

void SharedArena::free(const Block& block) {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(block.segment);
  if (found != segments_.end()) in_use(*found->second.memory, block.offset).store(std::byte{0});
}

// The segments of a burst go with it; the largest one stays.
void SharedArena::drop_empty(uint64_t used) {
  uint64_t largest = 0;
  for (const auto& [number, segment] : segments_) largest = std::max(largest, segment.memory->span().size());
  const bool largest_used = segments_[used].memory->span().size() == largest;
  std::vector<uint64_t> dropped;
  for (const auto& [number, segment] : segments_) {
    if (number != used && segment.blocks.empty() && (largest_used || segment.memory->span().size() < largest))
      dropped.push_back(number);
  }
  for (const uint64_t number : dropped) {
    segments_.erase(number);
    tell_.dropped(number);
  }
}

}  // namespace camshaft::server

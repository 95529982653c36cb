#include "llm/host_blocks.h"

#include <vector>

namespace camshaft::llm {

HostBlocks::HostBlocks(int32_t slots, int32_t block_size)
    : index_(slots, block_size), used_(slots), is_pinned_(static_cast<size_t>(slots)) {
  free_.reserve(static_cast<size_t>(slots));
  pinned_.reserve(static_cast<size_t>(slots));
  for (int32_t slot = slots; slot-- > 0;) free_.push_back(slot);  // the first is taken first
}

int32_t HostBlocks::insert(const BlockContent& content, std::span<const int32_t> tokens) {
  int32_t slot = none;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else if (slot = used_.oldest(); slot != none) {
    used_.remove(slot);
    index_.erase(slot);
  } else {
    return none;
  }
  index_.insert(slot, content, tokens);
  used_.append(slot);
  return slot;
}

void HostBlocks::touch(int32_t slot) {
  if (is_pinned_[static_cast<size_t>(slot)] != 0) return;  // it becomes the newest with all pinned ones
  used_.remove(slot);
  used_.append(slot);
}

void HostBlocks::pin(int32_t slot) {
  uint8_t& is_pinned = is_pinned_[static_cast<size_t>(slot)];
  if (is_pinned != 0) return;
  is_pinned = 1;
  used_.remove(slot);
  pinned_.push_back(slot);
}

// From the last on: of a chain its beginning is used for longest, as it is in the pool.
void HostBlocks::unpin_all() {
  for (; !pinned_.empty(); pinned_.pop_back()) {
    is_pinned_[static_cast<size_t>(pinned_.back())] = 0;
    used_.append(pinned_.back());
  }
}

void HostBlocks::forget(int32_t slot) {
  if (index_.at(slot).number == 0) return;
  if (is_pinned_[static_cast<size_t>(slot)] != 0) {
    is_pinned_[static_cast<size_t>(slot)] = 0;
    std::erase(pinned_, slot);
  } else {
    used_.remove(slot);
  }
  index_.erase(slot);
  free_.push_back(slot);
}

}  // namespace camshaft::llm

#include "cuda/queue.h"

#include "cuda/memory.h"

namespace camshaft::cuda {

std::shared_ptr<std::byte> Queue::allocate(size_t bytes, std::string_view purpose) {
  if (bytes == 0) return nullptr;
  // The device first: it must be there when the buffer is freed.
  struct Held {
    std::shared_ptr<const Device> device;
    DeviceBuffer buffer;
  };
  const auto held = std::make_shared<Held>(Held{device_, DeviceBuffer(*device_, bytes, purpose)});
  return {held, held->buffer.data()};
}

}  // namespace camshaft::cuda

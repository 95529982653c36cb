#include "backends/cuda/driver/stopwatch.h"

#include <algorithm>

#include "device_texts.h"

namespace camshaft::cuda {

std::string touch_text() {
  return std::string(device::numbers_h) + std::string(device::intrinsics_cuh) + std::string(device::touch_cuh);
}

Stopwatch::Stopwatch(const Stream& stream, Function touch)
    : stream_(stream), start_(stream.device(), true), stop_(stream.device(), true), touch_(std::move(touch)) {}

void Stopwatch::touch(std::byte* memory, size_t bytes, bool rewrite) {
  uint64_t count = bytes / 16;
  if (count == 0) return;
  constexpr unsigned threads = 256, blocks_each = 8;  // of a multiprocessor: as many threads as it holds
  const auto most = static_cast<uint64_t>(stream_.device().facts().multiprocessors) * blocks_each;
  uint32_t writes = rewrite ? 1 : 0;
  LaunchSize size;
  size.blocks = static_cast<unsigned>(std::min(most, (count + threads - 1) / threads));
  size.threads = threads;
  void* const arguments[] = {&memory, &count, &writes};
  touch_.launch(stream_, size, arguments);
}

}  // namespace camshaft::cuda

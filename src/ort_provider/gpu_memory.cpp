#include "ort_provider/gpu_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cuda/libraries/libraries.h"
#include "base/error.h"

namespace camshaft::ort_provider {

namespace {

/// What is asked of the driver, so that blocks serve again: powers of two, and steps of 2 MiB of large ones.
size_t rounded_up(size_t bytes) {
  constexpr size_t least = 512, step = size_t{2} << 20;
  if (bytes > step) return (bytes + step - 1) / step * step;
  return std::bit_ceil(std::max(bytes, least));
}

}  // namespace

void GpuBlock::note(const std::shared_ptr<WorkStream>& stream, uint64_t number) {
  std::erase_if(uses_, [&](const Use& use) { return use.stream == stream || use.stream->is_done(use.number); });
  if (!stream->is_done(number)) uses_.push_back({stream, number});
}

void GpuBlock::note_end() {
  if (stream_) note(stream_, stream_->latest());
  stream_ = nullptr;
}

bool GpuBlock::is_free_for(const WorkStream* stream) const {
  return std::all_of(uses_.begin(), uses_.end(),
                     [&](const Use& use) { return use.stream.get() == stream || use.stream->is_done(use.number); });
}

void GpuBlock::hold_back(const cuda::Stream& stream, const WorkStream* except) const {
  for (const Use& use : uses_)
    if (use.stream.get() != except && !use.stream->is_done(use.number)) use.stream->hold_back(stream);
}

void GpuBlock::wait() const {
  for (const Use& use : uses_)
    if (!use.stream->is_done(use.number)) use.stream->wait_for_work();
}

GpuMemory& GpuMemory::of(int ordinal) {
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<int, std::unique_ptr<GpuMemory>>;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<GpuMemory>& one = (*all)[ordinal];
  if (!one) one.reset(new GpuMemory(ordinal));
  return *one;
}

GpuMemory::GpuMemory(int ordinal) : device_(cuda::driver_library().functions, ordinal), stream_(device_) {}

GpuBlock* GpuMemory::find(const void* memory) {
  const auto* const address = static_cast<const std::byte*>(memory);
  auto it = taken_.upper_bound(address);
  if (it == taken_.begin()) return nullptr;
  --it;
  return address < it->first + it->second.buffer().size() ? &it->second : nullptr;
}

void GpuMemory::before_use(const void* memory, const cuda::Stream& by, const WorkStream* stream) {
  const std::lock_guard lock(mutex_);
  if (const GpuBlock* block = find(memory)) block->hold_back(by, stream);
}

void GpuMemory::wait_for_uses(const void* memory) {
  const std::lock_guard lock(mutex_);
  if (const GpuBlock* block = find(memory)) block->wait();
}

void GpuMemory::after_use(const void* memory, const std::shared_ptr<WorkStream>& stream, uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (GpuBlock* block = find(memory)) block->note(stream, number);
}

void GpuMemory::copy(void* to, DeviceId of_to, const void* from, DeviceId of_from, size_t bytes,
                     const std::shared_ptr<WorkStream>& in) {
  if (bytes == 0) return;
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  const cuda::Stream& stream = in ? in->stream() : stream_;
  std::unique_lock<std::mutex> alone;
  if (!in) alone = std::unique_lock(copying_);
  const auto each_on_gpu = [&](const auto& work) {
    if (of_to.is_gpu()) work(of(of_to.ordinal()), to);
    if (of_from.is_gpu()) work(of(of_from.ordinal()), from);
  };
  each_on_gpu([&](GpuMemory& memory, const void* used) { memory.before_use(used, stream, in.get()); });
  const cuda::Current current(device_);
  if (of_from.is_host()) {
    stream.copy_to_device(target, {source, bytes});
  } else if (of_to.is_host()) {
    stream.copy_to_host({target, bytes}, source);
  } else {
    stream.copy_from(target, {source, bytes}, of(of_from.ordinal()).device());
  }
  if (!in) return stream.synchronize();
  const uint64_t number = in->submitted();
  each_on_gpu([&](GpuMemory& memory, const void* used) { memory.after_use(used, in, number); });
  if (of_to.is_host()) in->wait();
}

void* GpuBlocks::allocate(size_t bytes, const std::shared_ptr<WorkStream>& stream) {
  const size_t size = rounded_up(bytes);
  const std::lock_guard lock(mutex_);
  GpuBlock block;
  const auto end = kept_.upper_bound(2 * size);
  const auto found = std::find_if(kept_.lower_bound(size), end,
                                  [&](const auto& kept) { return kept.second.is_free_for(stream.get()); });
  if (found != end) {
    block = std::move(found->second);
    kept_.erase(found);
  } else {
    const auto ask = [&] { return GpuBlock(cuda::DeviceBuffer(memory_.device(), size, "a tensor of ONNX Runtime")); };
    try {
      block = ask();
    } catch (const Error& e) {
      if (e.code() != ErrorCode::out_of_memory || kept_.empty()) throw;
      wait_for_kept();
      kept_.clear();
      block = ask();
    }
  }
  block.ask_in(stream);
  std::byte* const data = block.buffer().data();
  const std::lock_guard known(memory_.mutex_);
  memory_.taken_.emplace(data, std::move(block));
  return data;
}

void GpuBlocks::free(void* block) {
  const std::lock_guard lock(mutex_);
  const std::lock_guard known(memory_.mutex_);
  const auto it = memory_.taken_.find(static_cast<std::byte*>(block));
  if (it == memory_.taken_.end()) return;
  it->second.note_end();
  const size_t size = it->second.buffer().size();
  kept_.emplace(size, std::move(it->second));
  memory_.taken_.erase(it);
}

void GpuBlocks::wait_for_kept() {
  for (const auto& [size, block] : kept_) block.wait();
}

GpuBlocks::~GpuBlocks() {
  try {
    wait_for_kept();
  } catch (const Error&) {  // nobody asks any more
  }
}

}  // namespace camshaft::ort_provider

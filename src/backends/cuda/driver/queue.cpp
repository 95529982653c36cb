#include "backends/cuda/driver/queue.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <iterator>

#include "backends/cuda/device/small_copies_parameters.h"
#include "backends/cuda/driver/block_memory.h"
#include "backends/cuda/driver/check.h"
#include "backends/cuda/driver/forked_child.h"
#include "backends/cuda/driver/memory.h"
#include "base/error.h"
#include "base/format_bytes.h"
#include "base/spin_wait.h"
#include "base/work_scope.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

struct MemoryFacts {
  uint64_t type = 0;  // 0: of the host, and nothing that CUDA knows of
  uint64_t is_managed = 0;
  int64_t ordinal = 0;
};

MemoryFacts facts_of(const Device& device, const void* memory) {
  MemoryFacts facts;
  int attributes[] = {api::memory_type, api::is_managed, api::device_ordinal};
  void* values[] = {&facts.type, &facts.is_managed, &facts.ordinal};  // of which 1 to 4 bytes are written
  const Current current(device);
  check(device.driver(),
        device.driver().cuPointerGetAttributes(static_cast<unsigned>(std::size(attributes)), attributes, values,
                                               reinterpret_cast<api::Pointer>(memory)),
        "asking whose memory an address is");
  return facts;
}

/// What the queue's own stream recorded; replayed where the queue's work goes at that time.
class QueueRecording final : public DeviceRecording {
 public:
  QueueRecording(Queue& queue, const Stream& recorded, const RecordingParts& parts)
      : queue_(queue), recorded_(recorded), recording_(recorded, parts) {}
  void replay() override {
    queue_.note_replay();
    recording_.launch(queue_.stream());
  }
  bool replace(size_t part, const std::function<void()>& put) override {
    queue_.put_into_recording(put);
    queue_.stop_recording();
    return recording_.replace(part, recorded_);
  }

 private:
  Queue& queue_;
  const Stream& recorded_;
  Recording recording_;
};

class QueueEvent final : public DeviceEvent {
 public:
  explicit QueueEvent(const Device& device) : event(device) {}
  Event event;
};

class Timeline final : public DeviceTimeline {
 public:
  Timeline(const Queue& queue, const Device& device, size_t moments) : queue_(queue) {
    for (size_t m = 0; m < moments; ++m) events_.emplace_back(device, true);
  }
  void mark(size_t moment) override {
    Event& event = events_[moment];
    queue_.is_recording() ? event.record_in_recording(queue_.stream()) : event.record(queue_.stream());
  }
  double seconds(size_t from, size_t to) const override { return events_[to].seconds_since(events_[from]); }

 private:
  const Queue& queue_;
  std::deque<Event> events_;
};

}  // namespace

std::shared_ptr<std::byte> Queue::allocate(size_t bytes, std::string_view purpose) {
  if (bytes == 0) return nullptr;
  refuse_in_callers_recording("taking memory");
  // The device first: it must be there when the buffer is freed.
  struct Held {
    std::shared_ptr<const Device> device;
    DeviceBuffer buffer;
  };
  const auto held = std::make_shared<Held>(Held{device_, DeviceBuffer(*device_, bytes, purpose)});
  return {held, held->buffer.data()};
}

std::shared_ptr<std::byte> Queue::allocate_blocks(std::span<const int32_t> slots, size_t block_bytes,
                                                  std::string_view purpose) {
  if (slots.empty()) return nullptr;
  refuse_in_callers_recording("taking memory");
  struct Held {
    std::shared_ptr<const Device> device;
    BlockMemory memory;
  };
  const std::shared_ptr<Held> held(new Held{device_, BlockMemory(*device_, slots, block_bytes, purpose)});
  return {held, held->memory.data()};
}

size_t Queue::block_granularity() const {
  return BlockMemory::granularity(*device_);
}

std::shared_ptr<std::byte> Queue::allocate_pinned(size_t bytes, std::string_view purpose) {
  if (bytes == 0) return nullptr;
  refuse_in_callers_recording("taking memory");
  const Current current(*device_);
  void* memory = nullptr;
  const api::Result result = device_->driver().cuMemAllocHost_v2(&memory, bytes);
  if (result == api::error_out_of_memory)
    throw Error(ErrorCode::out_of_memory, fmt::format("out of memory: {} of the host's that GPU {} copies from, for {}",
                                                      format_bytes(bytes), device_->facts().ordinal, purpose));
  check(device_->driver(), result, "taking memory of the host that the device copies from");
  return {static_cast<std::byte*>(memory), [device = device_](std::byte* taken) {
            release_on(*device, [&](const api::Driver& driver) { driver.cuMemFreeHost(taken); });
          }};
}

std::string small_copies_text() {
  return std::string(device::numbers_h) + std::string(device::intrinsics_cuh) +
         std::string(device::small_copies_parameters_h) + std::string(device::small_copies_cuh);
}

size_t Queue::most_small_copies() const {
  return most_copies_at_once;
}

bool Queue::is_reached(const std::byte* memory) const {
  return facts_of(*device_, memory).type != 0;
}

void Queue::copy_small(std::span<const SmallCopy> copies) {
  if (copies.empty()) return;
  refuse_in_callers_recording("copying between host and device");
  if (!small_copies_) small_copies_ = load_small_copies_();
  SmallCopiesParameters parameters = {};
  for (size_t i = 0; i < copies.size(); ++i)
    parameters.copy[i] = {reinterpret_cast<uint8_t*>(copies[i].to), reinterpret_cast<const uint8_t*>(copies[i].from),
                          static_cast<uint32_t>(copies[i].bytes)};
  LaunchSize size;
  size.blocks = static_cast<unsigned>(copies.size());
  size.threads = 256;
  void* const arguments[] = {&parameters};
  small_copies_->launch(stream(), size, arguments);
  // Kernels read tables of caches before their turn where another kernel stands between: here may be none, as of what
  // depends on shapes alone, which is computed once. The next launch waits as it would for a copy.
  stream().note_wait();
}

std::unique_ptr<DeviceEvent> Queue::make_event() {
  return std::make_unique<QueueEvent>(*device_);
}

void Queue::record(DeviceEvent& event) {
  static_cast<QueueEvent&>(event).event.record(stream());
}

void Queue::wait_for(const DeviceEvent& event) {
  static_cast<const QueueEvent&>(event).event.hold_back(stream());
}

void Queue::check_stream(void* stream) const {
  cuda::check_stream(*device_, stream);
}

void Queue::start_run(std::optional<void*> stream) {
  refuse_in_forked_child();
  callers_.reset();
  if (stream) callers_.emplace(*device_, *stream);
  is_in_callers_recording_ = stream && callers_->is_recorded();
  // A recording cannot wait for what is not in it.
  if (is_in_callers_recording_) return;
  if (last_stream_ && *last_stream_ != this->stream().handle()) run_end_.hold_back(this->stream());
}

void Queue::refuse_in_callers_recording(const char* what) const {
  if (is_in_callers_recording_)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} cannot be recorded into a CUDA graph: run once with the same shapes and outputs before, "
                    "with all inputs and outputs on the device",
                    what));
}

void Queue::finish_run() {
  if (is_in_callers_recording_) {
    is_in_callers_recording_ = false;
    callers_.reset();
    return;
  }
  run_end_.record(stream());
  last_stream_ = stream().handle();
  callers_.reset();
}

void Queue::wait_for_marked() {
  if (is_forked_child()) return;  // runs are the parent's
  await_ranks([this] { return run_begin_.is_done(); });
  run_begin_.synchronize();
}

void Queue::wait_for_runs() {
  if (is_forked_child()) return;  // they are the parent's
  if (last_stream_) {
    await_ranks([this] { return run_end_.is_done(); });
    run_end_.synchronize();
  }
  complaints_.check();
}

void Queue::await_ranks() {
  await_ranks([this] { return stream().is_done(); });
}

void Queue::await_ranks(const std::function<bool()>& is_done) {
  if (!has_work_with_ranks_ || ranks_->link()->was_aborted()) return;
  using Clock = std::chrono::steady_clock;
  constexpr auto between_looks = std::chrono::milliseconds(10);
  const Clock::time_point start = Clock::now();
  try {
    for (Clock::time_point looked = start; !is_done();) {
      const Clock::time_point now = Clock::now();
      if (now - start > polite_after) sched_yield();
      if (now - looked < between_looks) continue;
      looked = now;
      cancellation_point();
      ranks_->link()->check();
      ranks_->watch(start);
    }
    has_work_with_ranks_ = false;
  } catch (...) {
    ranks_->link()->abort();
    try {
      stream().synchronize();  // what is left uses memory that may go with the run
    } catch (const Error&) {   // the first error says why
    }
    throw;
  }
}

void Queue::check_memory(const void* memory, DeviceId device, std::string_view what) const {
  const MemoryFacts facts = facts_of(*device_, memory);
  if (facts.is_managed != 0) return;
  if (device.is_host()) {
    if (facts.type == api::of_device)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} is at {}, which is memory of GPU {}: give it as of device 2 with ordinal {}", what,
                              memory, facts.ordinal, facts.ordinal));
    return;
  }
  if (facts.type != api::of_device)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} is at {}, which is memory of the host: give it as of device 1, or give memory of the GPU", what,
                    memory));
  if (facts.ordinal != device_->facts().ordinal)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is at {}, which is memory of GPU {}; this engine runs on GPU {}", what, memory,
                            facts.ordinal, device_->facts().ordinal));
}

void Queue::start_recording() {
  Recording::begin(own_);
  is_recording_ = true;
  parts_ = {};
}

void Queue::begin_part() {
  parts_.begin(own_);
}

void Queue::finish_part() {
  parts_.finish(own_);
}

std::unique_ptr<DeviceRecording> Queue::finish_recording() {
  is_recording_ = false;
  return std::make_unique<QueueRecording>(*this, own_, parts_);
}

std::unique_ptr<DeviceTimeline> Queue::make_timeline(size_t moments) {
  return std::make_unique<Timeline>(*this, *device_, moments);
}

}  // namespace camshaft::cuda

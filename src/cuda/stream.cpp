#include "cuda/stream.h"

#include "cuda/check.h"

namespace camshaft::cuda {

namespace {

api::Pointer address(const std::byte* pointer) {
  return reinterpret_cast<api::Pointer>(pointer);
}

}  // namespace

Event::Event(const Device& device) : device_(device) {
  const Current current(device);
  check(device.driver(), device.driver().cuEventCreate(&event_, api::event_default), "making an event");
}

Event::~Event() {
  const Current current(device_);
  device_.driver().cuEventDestroy_v2(event_);
}

void Event::wait() const {
  const Current current(device_);
  check(device_.driver(), device_.driver().cuEventSynchronize(event_), "waiting for an event");
}

double Event::seconds_since(const Event& begin) const {
  const Current current(device_);
  float milliseconds = 0;
  check(device_.driver(), device_.driver().cuEventElapsedTime(&milliseconds, begin.event_, event_), "reading a time");
  return static_cast<double>(milliseconds) * 1e-3;
}

Stream::Stream(const Device& device) : device_(device), owned_(true) {
  const Current current(device);
  check(device.driver(), device.driver().cuStreamCreate(&stream_, api::stream_non_blocking), "making a stream");
}

Stream::~Stream() {
  if (!owned_) return;
  const Current current(device_);
  device_.driver().cuStreamDestroy_v2(stream_);
}

void Stream::record(Event& event) const {
  const Current current(device_);
  check(device_.driver(), device_.driver().cuEventRecord(event.event_, stream_), "recording an event");
}

void Stream::wait_for(const Event& event) const {
  const Current current(device_);
  check(device_.driver(), device_.driver().cuStreamWaitEvent(stream_, event.event_, 0), "waiting for another stream");
}

void Stream::synchronize() const {
  const Current current(device_);
  check(device_.driver(), device_.driver().cuStreamSynchronize(stream_), "running on the device");
}

void Stream::copy_to_device(std::byte* to, std::span<const std::byte> from) const {
  if (from.empty()) return;
  const Current current(device_);
  check(device_.driver(), device_.driver().cuMemcpyHtoDAsync_v2(address(to), from.data(), from.size(), stream_),
        "copying to the device");
}

void Stream::copy_to_host(std::span<std::byte> to, const std::byte* from) const {
  if (to.empty()) return;
  const Current current(device_);
  check(device_.driver(), device_.driver().cuMemcpyDtoHAsync_v2(to.data(), address(from), to.size(), stream_),
        "copying from the device");
}

void Stream::copy_on_device(std::byte* to, const std::byte* from, size_t bytes) const {
  if (bytes == 0) return;
  const Current current(device_);
  check(device_.driver(), device_.driver().cuMemcpyDtoDAsync_v2(address(to), address(from), bytes, stream_),
        "copying on the device");
}

}  // namespace camshaft::cuda

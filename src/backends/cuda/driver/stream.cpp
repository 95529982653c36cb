#include "backends/cuda/driver/stream.h"

#include <fmt/format.h>

#include "backends/cuda/driver/check.h"
#include "base/error.h"

namespace camshaft::cuda {

namespace {

api::Pointer address(const std::byte* pointer) {
  return reinterpret_cast<api::Pointer>(pointer);
}

bool is_ready(const api::Driver& driver, api::Result result) {
  if (result == api::error_not_ready) return false;
  check(driver, result, "running on the device");
  return true;
}

}  // namespace

Stream::Stream(const Device& device) : device_(device) {
  const Current current(device);
  check(device.driver(), device.driver().cuStreamCreate(&stream_, api::stream_non_blocking), "making a stream");
}

Stream::~Stream() {
  if (!is_own_) return;
  release_on(device_, [&](const api::Driver& driver) {
    dnn_handle_.reset();
    driver.cuStreamDestroy_v2(stream_);
  });
  // Where nothing may be called any more it stays.
  if (dnn_handle_) static_cast<void>(new std::shared_ptr<void>(std::move(dnn_handle_)));
}

bool Stream::is_recorded() const {
  if (stream_ == nullptr) return false;  // the default stream cannot be, nor be asked while another one is
  const Current current(device_);
  int status = 0;
  check(device_.driver(), device_.driver().cuStreamIsCapturing(stream_, &status), "looking at a stream");
  return status != 0;
}

void Stream::synchronize() const {
  const Current current(device_);
  check(device_.driver(), device_.driver().cuStreamSynchronize(stream_), "running on the device");
}

bool Stream::is_done() const {
  const Current current(device_);
  return is_ready(device_.driver(), device_.driver().cuStreamQuery(stream_));
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

void Stream::copy_from(std::byte* to, std::span<const std::byte> from, const Device& source) const {
  if (from.empty()) return;
  const Current current(device_);
  if (source.context() == device_.context()) {  // a recording may hold this one, and no copy between devices
    check(device_.driver(),
          device_.driver().cuMemcpyDtoDAsync_v2(address(to), address(from.data()), from.size(), stream_),
          "copying on the device");
    return;
  }
  check(device_.driver(),
        device_.driver().cuMemcpyPeerAsync(address(to), device_.context(), address(from.data()), source.context(),
                                           from.size(), stream_),
        "copying from one device to another");
}

void check_stream(const Device& device, api::Handle stream) {
  if (stream == nullptr) return;
  const Current current(device);
  api::Handle context = nullptr;
  check(device.driver(), device.driver().cuStreamGetCtx(stream, &context), "asking for the context of a stream");
  if (context != device.context())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the stream at {} is not one of GPU {}, which this engine runs on, in its primary context",
                            stream, device.facts().ordinal));
}

Event::Event(const Device& device, bool has_time) : device_(device) {
  const Current current(device);
  check(device.driver(), device.driver().cuEventCreate(&event_, has_time ? 0 : api::event_without_time),
        "making an event");
}

Event::~Event() {
  release_on(device_, [&](const api::Driver& driver) { driver.cuEventDestroy_v2(event_); });
}

void Event::record(const Stream& stream) {
  const Current current(device_);
  check(device_.driver(), device_.driver().cuEventRecord(event_, stream.handle()), "marking a moment");
}

void Event::record_in_recording(const Stream& stream) {
  const Current current(device_);
  check(device_.driver(), device_.driver().cuEventRecordWithFlags(event_, stream.handle(), api::event_of_recording),
        "recording a moment");
}

void Event::hold_back(const Stream& stream) const {
  const Current current(stream.device());
  check(device_.driver(), device_.driver().cuStreamWaitEvent(stream.handle(), event_, 0),
        "putting work after what an event marks");
  stream.note_wait();
}

void Event::synchronize() const {
  const Current current(device_);
  check(device_.driver(), device_.driver().cuEventSynchronize(event_), "running on the device");
}

bool Event::is_done() const {
  const Current current(device_);
  return is_ready(device_.driver(), device_.driver().cuEventQuery(event_));
}

double Event::seconds_since(const Event& start) const {
  const Current current(device_);
  float milliseconds = 0;
  check(device_.driver(), device_.driver().cuEventElapsedTime(&milliseconds, start.event_, event_),
        "reading the time between two events");
  return 1e-3 * static_cast<double>(milliseconds);
}

DeviceBuffer upload(const Device& device, std::span<const std::byte> bytes, std::string_view purpose) {
  DeviceBuffer buffer(device, bytes.size(), purpose);
  const Stream stream(device);
  stream.copy_to_device(buffer.data(), bytes);
  stream.synchronize();
  return buffer;
}

}  // namespace camshaft::cuda

// A stream as the runtime knows it.
#pragma once

#include "compile/device_queue.h"
#include "cuda/complaints.h"
#include "cuda/recording.h"
#include "cuda/stream.h"

namespace camshaft::cuda {

class Queue final : public DeviceQueue {
 public:
  explicit Queue(std::shared_ptr<const Device> device)
      : device_(std::move(device)), stream_(*device_), complaints_(*device_) {}
  std::shared_ptr<std::byte> allocate(size_t bytes, std::string_view purpose) override;
  void copy_to_device(std::byte* to, std::span<const std::byte> from) override { stream_.copy_to_device(to, from); }
  void copy_to_host(std::span<std::byte> to, const std::byte* from) override { stream_.copy_to_host(to, from); }
  void synchronize() override {
    stream_.synchronize();
    complaints_.check();
  }

  void start_recording() override { Recording::begin(stream_); }
  std::unique_ptr<DeviceRecording> finish_recording() override { return std::make_unique<Recording>(stream_); }

  const Stream& stream() const { return stream_; }
  Complaints& complaints() { return complaints_; }

 private:
  std::shared_ptr<const Device> device_;
  Stream stream_;
  Complaints complaints_;
};

}  // namespace camshaft::cuda

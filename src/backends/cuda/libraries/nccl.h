// Links between the GPUs of ranks by NCCL.
#pragma once

#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/driver/stream.h"
#include "backends/cuda/libraries/libraries.h"
#include "base/communicator.h"

namespace camshaft::cuda {

/// What rank 0 sends to all for NcclLink. Throws Error(io) where NCCL finds no way to be reached by them.
std::vector<std::byte> make_nccl_key();

/// One rank's end. All ranks call the same functions in the same order; each puts the work into a stream of the rank's
/// device, which may be recorded, and throws Error where the library refuses, or once the link was aborted.
class NcclLink final : public DeviceLink {
 public:
  /// Returns when all ranks have made theirs, each on a device of its own. Throws Error(io) where the library fails.
  NcclLink(std::shared_ptr<const Device> device, int rank, int size, std::span<const std::byte> key);
  ~NcclLink() override;
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  DeviceId device() const override { return DeviceId::gpu(device_->facts().ordinal); }
  void check() override;
  void abort() noexcept override;
  bool was_aborted() const override { return communicator_ == nullptr; }

  void all_reduce(const Stream& stream, const std::byte* x, std::byte* y, size_t count, api::NcclType type,
                  api::NcclReduction reduction);
  /// `bytes`: of x.
  void all_gather(const Stream& stream, const std::byte* x, std::byte* y, size_t bytes);
  /// `count`: of y.
  void reduce_scatter(const Stream& stream, const std::byte* x, std::byte* y, size_t count, api::NcclType type,
                      api::NcclReduction reduction);
  void broadcast(const Stream& stream, const std::byte* x, std::byte* y, size_t bytes, int root);
  /// `bytes`: of each part, of which x and y have one for each rank.
  void all_to_all(const Stream& stream, const std::byte* x, std::byte* y, size_t bytes);

 private:
  template <class Call>
  void put(const char* what, const Call& call);
  void check(api::Result result, const char* what) const;

  std::shared_ptr<const Device> device_;
  int size_;
  api::Handle communicator_ = nullptr;
  std::thread ending_;  // of a link that was aborted
  std::future<void> ended_;
};

}  // namespace camshaft::cuda

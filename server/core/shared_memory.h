// Regions of memory that clients share with the server on the same machine.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/status.h"
#include "server/core/tensor.h"

namespace camshaft::server {

/// Regions by name: POSIX shared memory, by its key, and memory of GPUs, by CUDA's handle of it. Safe from several
/// threads; a region in use by a request stays mapped until it is answered.
///
/// The client may write to it at any time, so what is checked must be copied first. It may also make the file shorter:
/// a slice of what is gone is refused, and where that happens while the slice is in use its bytes read as zeros and
/// damaged() says so, in place of the SIGBUS that would end the process.
class SharedMemory {
 public:
  struct Region {
    std::string name, key;
    uint64_t offset = 0, byte_size = 0;
  };
  struct CudaRegion {
    std::string name;
    int64_t device = 0;
    uint64_t byte_size = 0;
  };
  struct Slice {
    std::span<std::byte> span;
    std::shared_ptr<const void> owner;
    /// Null of a GPU's memory, which cannot become shorter.
    std::shared_ptr<const std::atomic<bool>> broken = nullptr;
    Device device = {};  ///< whose memory it is
    /// Whether bytes that were read or written were not there: what was made of them is no answer.
    bool damaged() const { return broken != nullptr && *broken; }
  };

  /// `allowed`: the server was told to take memory of its clients (--allow-client-shm); else register_region() and
  /// unregister() are ServerError(unsupported).
  explicit SharedMemory(bool allowed) : allowed_(allowed) {}

  /// Throws ServerError: already_exists, or invalid_argument for a key that cannot be opened or is too short.
  void register_region(const std::string& name, const std::string& key, uint64_t offset, uint64_t byte_size);
  /// `handle`: the bytes of a cudaIpcMemHandle_t. Throws ServerError: already_exists, unsupported without a GPU, or
  /// invalid_argument for a handle that cannot be opened and for more bytes than the allocation has.
  void register_cuda_region(const std::string& name, std::string_view handle, int64_t device, uint64_t byte_size);
  /// Those of the kind alone. An empty name: all.
  void unregister(const std::string& name) { let_go(name, false); }
  void unregister_cuda(const std::string& name) { let_go(name, true); }
  /// An empty name: all. Throws ServerError(not_found).
  std::vector<Region> status(const std::string& name) const;
  std::vector<CudaRegion> cuda_status(const std::string& name) const;
  /// Throws ServerError(invalid_argument) for an unknown region, and for what lies beyond it.
  Slice slice(const std::string& name, uint64_t offset, uint64_t byte_size) const;

 private:
  struct Mapping;
  struct CudaMapping;
  /// One of both.
  struct Registered {
    std::shared_ptr<const Mapping> system;
    std::shared_ptr<const CudaMapping> cuda;
  };
  void check_allowed() const;
  void add(const std::string& name, Registered region);
  void let_go(const std::string& name, bool cuda);

  bool allowed_;
  mutable std::mutex mutex_;
  std::map<std::string, Registered> regions_;
};

/// A slice as the bytes of an input: reals where they are, the rest as a copy on the host. Strings and integers may be
/// lengths and indices, which the client must not change once they were checked.
Bytes input_bytes(const SharedMemory::Slice& slice, DType dtype);

}  // namespace camshaft::server

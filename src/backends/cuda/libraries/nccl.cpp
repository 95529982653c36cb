#include "backends/cuda/libraries/nccl.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace camshaft::cuda {

namespace {

const api::Nccl& nccl() {
  return nccl_library().functions;
}

[[noreturn]] void fail_nccl(api::Result result, const char* what) {
  throw Error(ErrorCode::io,
              fmt::format("NCCL {} failed in {}: {} (status {}); NCCL_DEBUG=WARN in the environment has it say more",
                          nccl_library().version, what, nccl().ncclGetErrorString(result), result));
}

}  // namespace

std::vector<std::byte> make_nccl_key() {
  api::NcclId id{};
  if (const api::Result result = nccl().ncclGetUniqueId(&id); result != api::success)
    fail_nccl(result, "preparing to be reached by other ranks");
  std::vector<std::byte> key(sizeof id);
  std::memcpy(key.data(), &id, sizeof id);
  return key;
}

NcclLink::NcclLink(std::shared_ptr<const Device> device, int rank, int size, std::span<const std::byte> key)
    : device_(std::move(device)), size_(size) {
  api::NcclId id{};
  if (key.size() != sizeof id) throw Error(ErrorCode::internal, "a key that is none of NCCL's");
  std::memcpy(&id, key.data(), sizeof id);
  const Current current(*device_);
  check(nccl().ncclCommInitRank(&communicator_, size, id, rank), "meeting the other ranks");
}

NcclLink::~NcclLink() {
  abort();
  if (!ending_.joinable()) return;
  // It waits for recordings of the callers', too, which may live on: nobody can say for how long.
  const bool has_ended = ended_.wait_for(std::chrono::seconds(2)) == std::future_status::ready;
  has_ended ? ending_.join() : ending_.detach();
}

void NcclLink::abort() noexcept {
  const api::Handle communicator = std::exchange(communicator_, nullptr);
  if (!communicator || is_forked_child()) return;
  // The library ends what the device does at once, and returns when no recording names the communicator any more: the
  // thread that has these must be able to go on.
  std::promise<void> ended;
  ended_ = ended.get_future();
  ending_ = std::thread([device = device_, communicator, ended = std::move(ended)]() mutable {
    release_on(*device, [&](const api::Driver&) { nccl().ncclCommAbort(communicator); });
    ended.set_value();
  });
}

void NcclLink::check(api::Result result, const char* what) const {
  if (result != api::success) fail_nccl(result, what);
}

void NcclLink::check() {
  if (!communicator_) return;
  api::Result result = api::success;
  check(nccl().ncclCommGetAsyncError(communicator_, &result), "looking at the other ranks");
  check(result, "work with other ranks");
}

template <class Call>
void NcclLink::put(const char* what, const Call& call) {
  if (!communicator_) throw Error(ErrorCode::io, "the link to the other ranks' devices has ended");
  const Current current(*device_);
  check(call(nccl()), what);
}

void NcclLink::all_reduce(const Stream& stream, const std::byte* x, std::byte* y, size_t count, api::NcclType type,
                          api::NcclReduction reduction) {
  put("an all-reduce", [&](const api::Nccl& library) {
    return library.ncclAllReduce(x, y, count, type, reduction, communicator_, stream.handle());
  });
}

void NcclLink::all_gather(const Stream& stream, const std::byte* x, std::byte* y, size_t bytes) {
  put("an all-gather", [&](const api::Nccl& library) {
    return library.ncclAllGather(x, y, bytes, api::nccl_u8, communicator_, stream.handle());
  });
}

void NcclLink::reduce_scatter(const Stream& stream, const std::byte* x, std::byte* y, size_t count, api::NcclType type,
                              api::NcclReduction reduction) {
  put("a reduce-scatter", [&](const api::Nccl& library) {
    return library.ncclReduceScatter(x, y, count, type, reduction, communicator_, stream.handle());
  });
}

void NcclLink::broadcast(const Stream& stream, const std::byte* x, std::byte* y, size_t bytes, int root) {
  put("a broadcast", [&](const api::Nccl& library) {
    return library.ncclBroadcast(x, y, bytes, api::nccl_u8, root, communicator_, stream.handle());
  });
}

void NcclLink::all_to_all(const Stream& stream, const std::byte* x, std::byte* y, size_t bytes) {
  put("an all-to-all", [&](const api::Nccl& library) {
    api::Result result = library.ncclGroupStart();
    if (result != api::success) return result;
    for (int rank = 0; rank < size_ && result == api::success; ++rank) {
      const size_t at = static_cast<size_t>(rank) * bytes;
      result = library.ncclSend(x + at, bytes, api::nccl_u8, rank, communicator_, stream.handle());
      if (result == api::success)
        result = library.ncclRecv(y + at, bytes, api::nccl_u8, rank, communicator_, stream.handle());
    }
    const api::Result end = library.ncclGroupEnd();
    return result != api::success ? result : end;
  });
}

}  // namespace camshaft::cuda

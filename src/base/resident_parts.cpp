#include "base/resident_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace camshaft {
namespace {

// Of the devices' blocks: O_DIRECT reads whole ones.
constexpr size_t device_block = 4096;

size_t up_to(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

size_t whole_pages(size_t bytes) {
  return up_to(up_to(bytes, device_block), static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

[[noreturn]] void fail_mapping(const std::string& path) {
  throw Error(ErrorCode::out_of_memory,
              fmt::format("{}: its weights could not be mapped: {}; vm.max_map_count says how many mappings a process "
                          "may have",
                          path, std::strerror(errno)));
}

}  // namespace

ResidentParts::ResidentParts(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {
  if (file_->descriptor() < 0)
    throw Error(ErrorCode::invalid_argument,
                file_->path() + ": it is in memory, or its descriptor was not kept: it has no parts");
  // By its number: the path may be another file's by now.
  direct_ = ::open(fmt::format("/proc/self/fd/{}", file_->descriptor()).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  drop(0, file_->size());  // without the advice that mappings were given, so that parts that are dropped become one
}

ResidentParts::~ResidentParts() {
  if (direct_ >= 0) close(direct_);
}

void ResidentParts::read(std::byte* to, size_t offset, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    ssize_t got = -1;
    const auto at = static_cast<off_t>(offset + done);
    const size_t rest = up_to(bytes - done, device_block);
    if (asks_cache_ && done == 0) {
      // What the system has in its cache, the first of it, is a copy away.
      const iovec part{to, bytes};
      got = preadv2(file_->descriptor(), &part, 1, at, RWF_NOWAIT);
      if (got < 0 && errno != EAGAIN && errno != EINTR) asks_cache_ = false;
      if (got > 0 && static_cast<size_t>(got) < bytes) got = got / static_cast<ssize_t>(device_block) * device_block;
      if (got > 0) {
        done += static_cast<size_t>(got);
        continue;
      }
    }
    if (direct_ >= 0) {
      got = pread(direct_, to + done, rest, at);
      if (got < 0 && errno == EINVAL) {  // the file system wants other sizes, or none
        close(direct_);
        direct_ = -1;
        continue;
      }
    } else {
      got = pread(file_->descriptor(), to + done, bytes - done, at);
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw Error(ErrorCode::io, fmt::format("{}: could not be read: {}", file_->path(), std::strerror(errno)));
    if (got == 0) throw Error(ErrorCode::io, file_->path() + ": the file was cut since it was opened; load it anew");
    done += static_cast<size_t>(got);
    // A short read that is no whole block is the file's end, or the rest goes through the cache.
    if (done < bytes && done % device_block != 0 && direct_ >= 0) {
      close(direct_);
      direct_ = -1;
    }
  }
}

void ResidentParts::bring(size_t offset, size_t bytes, size_t next_bytes) {
  const std::unique_ptr<FreshMemory> fresh = ahead_.take(whole_pages(bytes));
  ahead_.prepare(next_bytes);
  read(fresh->data(), offset, bytes);
  if (!fresh->move_to(const_cast<std::byte*>(file_->data()) + offset)) fail_mapping(file_->path());
}

void ResidentParts::drop(size_t offset, size_t bytes) {
  void* const place = const_cast<std::byte*>(file_->data()) + offset;
  if (mmap(place, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, file_->descriptor(), static_cast<off_t>(offset)) ==
      MAP_FAILED)
    fail_mapping(file_->path());
}

}  // namespace camshaft

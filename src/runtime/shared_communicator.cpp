#include "runtime/shared_communicator.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>

#include "base/available_cores.h"
#include "base/error.h"
#include "base/seconds_since.h"
#include "base/spin_wait.h"
#include "base/work_scope.h"

namespace camshaft {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int most_communicator_ranks = 1024;
// Parts that go through the shared memory at a time: they stay in the second cache of both who write and who read.
constexpr size_t part_bytes = size_t{1} << 20;
constexpr size_t most_call_text = 240, most_abort_text = 1000;
constexpr uint64_t region_magic = 0x6361'6d73'6366'7401;
// How often those who wait look at who else is alive, and whether they are to stop.
constexpr int64_t look_nanoseconds = 100'000'000;
// What a rank that is gone has given to its device may take as long to come to others.
constexpr double seconds_to_arrive = 1;
// Bytes of the file that ranks lock lie from here on, beyond all that is mapped: the first for those who join, …
constexpr off_t join_lock = off_t{1} << 40, rank_locks = join_lock + 1;

// Processes share the words: not the private futexes that threads have (base/spin_wait.h).
void shared_futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  const timespec most{0, look_nanoseconds};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &most, nullptr, 0);
}

void shared_futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// What one rank brings, in two buffers that take turns: who comes to an exchange has read all of the one before, so
// that nobody need wait for the readers of the last but one.
struct alignas(64) Slot {
  std::atomic<uint32_t> arrived;  // exchanges of parts so far
  std::atomic<uint32_t> waiting;  // ranks that sleep until it changes
  std::atomic<uint32_t> joined;
  std::atomic<uint32_t> left;
  uint64_t bytes[2];  // UINT64_MAX: it brings nothing
  char call[2][most_call_text];
};

struct Header {
  uint64_t magic;
  uint32_t size;
  std::atomic<uint32_t> state;  // 0: exchanges go on, 1: somebody ends them, 2: they have ended
  char why[most_abort_text];
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

constexpr size_t slots_begin = 4096;
static_assert(sizeof(Header) <= slots_begin);

size_t data_begin(int size) {
  return (slots_begin + static_cast<size_t>(size) * sizeof(Slot) + 4095) / 4096 * 4096;
}

size_t region_bytes(int size) {
  return data_begin(size) + static_cast<size_t>(size) * 2 * part_bytes;
}

[[noreturn]] void fail_system(const std::string& what) {
  throw Error(ErrorCode::io, fmt::format("{}: {}", what, std::strerror(errno)));
}

// The memory, and the file behind it, whose locks say who is alive.
class Region {
 public:
  Region(int size, int fd) : size_(size), fd_(fd) {
    const int flags = fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
    void* const memory = ::mmap(nullptr, region_bytes(size), PROT_READ | PROT_WRITE, flags, fd, 0);
    if (memory == MAP_FAILED) fail_system("memory that ranks share cannot be mapped");
    memory_ = static_cast<std::byte*>(memory);
  }
  ~Region() {
    ::munmap(memory_, region_bytes(size_));
    if (fd_ >= 0) ::close(fd_);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  int size() const { return size_; }
  Header& header() const { return *reinterpret_cast<Header*>(memory_); }
  Slot& slot(int rank) const {
    return *reinterpret_cast<Slot*>(memory_ + slots_begin + static_cast<size_t>(rank) * sizeof(Slot));
  }
  std::byte* part(int rank, uint32_t sequence) const {
    return memory_ + data_begin(size_) + (2 * static_cast<size_t>(rank) + sequence % 2) * part_bytes;
  }
  // Memory of zeros, or that of a job whose processes are all gone.
  void reset() const {
    std::memset(memory_, 0, data_begin(size_));
    header().size = static_cast<uint32_t>(size_);
    header().magic = region_magic;
  }
  // Whether the process that has the rank lives; true of threads.
  bool lives(int rank) const {
    if (fd_ < 0) return true;
    struct flock lock {};
    lock.l_type = F_WRLCK, lock.l_whence = SEEK_SET, lock.l_start = rank_locks + rank, lock.l_len = 1;
    return ::fcntl(fd_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
  }

 private:
  int size_, fd_;
  std::byte* memory_ = nullptr;
};

// Of one description of the file; the kernel takes it back when the process ends, however that does.
bool take_lock(int fd, off_t at, bool waits) {
  struct flock lock {};
  lock.l_type = F_WRLCK, lock.l_whence = SEEK_SET, lock.l_start = at, lock.l_len = 1;
  for (;;) {
    if (::fcntl(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock) == 0) return true;
    if (errno == EINTR) continue;
    if (!waits && (errno == EAGAIN || errno == EACCES)) return false;
    fail_system("a file of shared memory cannot be locked");
  }
}

void give_lock_back(int fd, off_t at) {
  struct flock lock {};
  lock.l_type = F_UNLCK, lock.l_whence = SEEK_SET, lock.l_start = at, lock.l_len = 1;
  static_cast<void>(::fcntl(fd, F_OFD_SETLK, &lock));
}

class SharedCommunicator final : public Communicator {
 public:
  SharedCommunicator(std::shared_ptr<Region> region, int rank, double timeout)
      : region_(std::move(region)), rank_(rank), timeout_(timeout), oversubscribed_(size() > available_cores()) {
    own().joined.store(1);
  }
  ~SharedCommunicator() override {
    own().left.store(1);
    wake(own());
  }
  SharedCommunicator(const SharedCommunicator&) = delete;
  SharedCommunicator& operator=(const SharedCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return region_->size(); }

  void exchange(std::string_view call, std::span<const std::byte> mine, size_t bytes, const Take& take,
                bool waits) override {
    size_t offset = 0;
    do {
      const size_t count = std::min(part_bytes, bytes - offset);
      const std::span<const std::byte> part = mine.empty() ? mine : mine.subspan(offset, count);
      exchange_part(call, part, offset, count, take, waits);
      offset += count;
    } while (offset < bytes);
  }

  void abort(std::string_view why) noexcept override {
    Header& header = region_->header();
    uint32_t going_on = 0;
    if (!header.state.compare_exchange_strong(going_on, 1)) return;
    const size_t count = std::min(why.size(), most_abort_text - 1);
    std::memcpy(header.why, why.data(), count);
    header.why[count] = 0;
    header.state.store(2);
    for (int r = 0; r < size(); ++r) wake(region_->slot(r));
  }

  void watch(Clock::time_point since) override {
    check_state();
    for (int r = 0; r < size(); ++r) {
      const bool has_left = region_->slot(r).left.load() != 0;
      if (r == rank_ || (!has_left && region_->lives(r))) continue;
      if (!gone_since_) gone_since_ = Clock::now();
      if (seconds_since(*gone_since_) > seconds_to_arrive)
        lose(r, has_left ? "has left" : "has died", "its part of a run was done");
      return;
    }
    if (seconds_since(since) <= timeout_) return;
    const std::string what = fmt::format("a run waits for other ranks for more than {} s", timeout_);
    abort(what);
    throw Error(ErrorCode::io, what);
  }

  // Until all have joined.
  void await_all() {
    const Clock::time_point start = Clock::now();
    for (int r = 0; r < size(); ++r)
      while (region_->slot(r).joined.load() == 0) {
        cancellation_point();
        if (seconds_since(start) > timeout_)
          throw Error(ErrorCode::io, fmt::format("rank {} of {} has not joined within {} s: start all of them, with "
                                                 "one name and one number of ranks",
                                                 r, size(), timeout_));
        ::usleep(2000);
      }
  }

 private:
  Slot& own() const { return region_->slot(rank_); }

  static void wake(Slot& slot) {
    if (slot.waiting.load() > 0) shared_futex_wake(slot.arrived);
  }

  void exchange_part(std::string_view call, std::span<const std::byte> mine, size_t offset, size_t count,
                     const Take& take, bool waits) {
    check_state();
    const uint32_t sequence = ++sequence_;
    const size_t buffer = sequence % 2;
    Slot& slot = own();
    slot.bytes[buffer] = mine.empty() ? UINT64_MAX : count;
    const size_t length = std::min(call.size(), most_call_text - 1);
    std::memcpy(slot.call[buffer], call.data(), length);
    slot.call[buffer][length] = 0;
    if (!mine.empty()) std::memcpy(region_->part(rank_, sequence), mine.data(), mine.size());
    slot.arrived.store(sequence);
    wake(slot);
    const Clock::time_point start = Clock::now();
    for (int r = 0; r < size(); ++r)
      if (r != rank_) await(r, sequence, start, waits, call);
    check_calls(buffer);
    for (int r = 0; r < size(); ++r) {
      const uint64_t brought = region_->slot(r).bytes[buffer];
      if (brought != UINT64_MAX && brought != count) {
        const std::string what =
            fmt::format("rank {} brings {} bytes to {}, of which rank {} knows {}", r, brought, call, rank_, count);
        abort(what);
        throw Error(ErrorCode::invalid_argument, what);
      }
      if (r == rank_) {
        take(r, offset, mine);
      } else {
        take(r, offset, {region_->part(r, sequence), brought == UINT64_MAX ? 0 : static_cast<size_t>(brought)});
      }
    }
  }

  void check_state() const {
    const Header& header = region_->header();
    if (header.state.load() == 2) throw Error(ErrorCode::io, header.why);
  }

  // Every rank sees the same texts, and says the same.
  void check_calls(size_t buffer) {
    const char* const first = region_->slot(0).call[buffer];
    for (int r = 1; r < size(); ++r) {
      const char* const other = region_->slot(r).call[buffer];
      if (std::strncmp(first, other, most_call_text) == 0) continue;
      const std::string what =
          fmt::format("ranks do different things: rank 0 is at {}; rank {} at {}", first, r, other);
      abort(what);
      throw Error(ErrorCode::invalid_argument, what);
    }
  }

  void await(int rank, uint32_t sequence, Clock::time_point start, bool waits, std::string_view call) {
    Slot& slot = region_->slot(rank);
    const auto has_come = [&] { return static_cast<int32_t>(slot.arrived.load() - sequence) >= 0; };
    if (spin_until(has_come, oversubscribed_)) return;
    for (;;) {
      slot.waiting.fetch_add(1);
      const uint32_t seen = slot.arrived.load();
      if (static_cast<int32_t>(seen - sequence) < 0 && region_->header().state.load() == 0 && slot.left.load() == 0)
        shared_futex_wait(slot.arrived, seen);
      slot.waiting.fetch_sub(1);
      // In this order: who has left, or died, may have come before.
      const bool is_gone = slot.left.load() != 0 || !region_->lives(rank);
      if (has_come()) return;
      check_state();
      cancellation_point();
      if (is_gone) lose(rank, slot.left.load() != 0 ? "has left" : "has died", call);
      if (!waits && seconds_since(start) > timeout_)
        lose(rank, fmt::format("did not come within {} s", timeout_), call);
    }
  }

  [[noreturn]] void lose(int rank, std::string_view how, std::string_view before) {
    const std::string what = fmt::format("rank {} {} before {}", rank, how, before);
    abort(what);
    throw Error(ErrorCode::io, what);
  }

  std::shared_ptr<Region> region_;
  int rank_;
  double timeout_;
  bool oversubscribed_;
  uint32_t sequence_ = 0;
  std::optional<Clock::time_point> gone_since_;  // a rank that a run waits for
};

void check_ranks(int rank, int size, double timeout) {
  if (size < 1 || size > most_communicator_ranks)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a communicator of {} ranks; 1 to {} are possible", size, most_communicator_ranks));
  if (rank < 0 || rank >= size)
    throw Error(ErrorCode::invalid_argument, fmt::format("rank {} of {}; they count from 0", rank, size));
  if (!(timeout > 0) || !std::isfinite(timeout))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the timeout of a communicator is {} s; it must be positive", timeout));
}

constexpr const char* memory_folder = "/dev/shm";

std::string own_prefix() {
  return "camshaft-" + std::to_string(::getuid()) + "-";
}

// Processes that live.
bool has_ranks(int fd) {
  struct flock lock {};
  lock.l_type = F_WRLCK, lock.l_whence = SEEK_SET, lock.l_start = rank_locks, lock.l_len = most_communicator_ranks;
  return ::fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

// What jobs have left behind whose processes all ended before they had met, in whatever way: nobody else knows their
// names.
void remove_leftovers() {
  std::error_code failed;
  for (std::filesystem::directory_iterator it(memory_folder, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string path = it->path();
    if (!it->path().filename().string().starts_with(own_prefix())) continue;
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    struct flock joining {};
    joining.l_type = F_WRLCK, joining.l_whence = SEEK_SET, joining.l_start = join_lock, joining.l_len = 1;
    // Who holds it is about to be a rank.
    if (::fcntl(fd, F_OFD_SETLK, &joining) == 0 && !has_ranks(fd)) ::unlink(path.c_str());
    ::close(fd);
  }
}

// A file that is open and locked for joining, and that the name leads to.
class JoinedFile {
 public:
  explicit JoinedFile(const std::string& name) : path_(std::string(memory_folder) + "/" + own_prefix() + name) {
    for (;;) {
      fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
      if (fd_ < 0) fail_system(fmt::format("{}, the memory that ranks share, cannot be opened", path_));
      take_lock(fd_, join_lock, true);
      struct stat status {};
      if (::fstat(fd_, &status) != 0) fail_system(path_);
      if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid())
        throw Error(ErrorCode::io, fmt::format("{}, the memory that ranks share, is of another user", path_));
      bytes_ = static_cast<size_t>(status.st_size);
      if (status.st_nlink > 0) return;
      ::close(fd_);  // all ranks of another job had it meanwhile
    }
  }
  ~JoinedFile() {
    give_lock_back(fd_, join_lock);
    ::close(fd_);
  }
  JoinedFile(const JoinedFile&) = delete;
  JoinedFile& operator=(const JoinedFile&) = delete;

  int fd() const { return fd_; }
  size_t bytes() const { return bytes_; }
  void grow(size_t bytes) {
    if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail_system(path_);
    // Memory that is not there would end the process at its first use.
    if (const int failed = ::posix_fallocate(fd_, 0, static_cast<off_t>(bytes)); failed != 0) {
      errno = failed;
      fail_system(fmt::format("{} bytes of {}, the memory that ranks share, cannot be had", bytes, path_));
    }
  }
  void unlink() const { ::unlink(path_.c_str()); }
  /// Another number of it, with the same locks.
  int duplicate() const {
    const int made = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
    if (made < 0) fail_system(path_);
    return made;
  }

 private:
  std::string path_;
  int fd_ = -1;
  size_t bytes_ = 0;
};

}  // namespace

std::vector<std::shared_ptr<Communicator>> local_communicators(int size, double timeout) {
  check_ranks(0, size, timeout);
  const auto region = std::make_shared<Region>(size, -1);
  region->reset();
  std::vector<std::shared_ptr<Communicator>> all;
  for (int r = 0; r < size; ++r) all.push_back(std::make_shared<SharedCommunicator>(region, r, timeout));
  return all;
}

std::shared_ptr<Communicator> join_communicator(const std::string& name, int rank, int size, double timeout) {
  check_ranks(rank, size, timeout);
  if (name.empty() || name.size() > 200 || name.find('/') != std::string::npos)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a communicator is named '{}'; 1 to 200 characters without '/' are possible", name));
  remove_leftovers();
  std::shared_ptr<SharedCommunicator> made;
  {
    JoinedFile file(name);
    const bool is_new = file.bytes() < sizeof(Header) || !has_ranks(file.fd());
    if (is_new) {
      file.grow(region_bytes(size));
    } else {
      uint32_t others = 0;
      if (::pread(file.fd(), &others, sizeof(others), offsetof(Header, size)) != sizeof(others)) fail_system(name);
      if (others != static_cast<uint32_t>(size))
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("rank {} joins '{}' as one of {} ranks, and others are of {}", rank, name, size, others));
    }
    if (!take_lock(file.fd(), rank_locks + rank, false))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("another process is rank {} of '{}': each rank is started once", rank, name));
    const auto region = std::make_shared<Region>(size, file.duplicate());
    if (is_new) region->reset();
    if (region->slot(rank).joined.load() != 0)
      throw Error(ErrorCode::io,
                  fmt::format("rank {} of '{}' was there and has gone: start all ranks again", rank, name));
    made = std::make_shared<SharedCommunicator>(region, rank, timeout);
    bool are_all_there = true;
    for (int r = 0; r < size; ++r) are_all_there = are_all_there && region->slot(r).joined.load() != 0;
    if (are_all_there) file.unlink();
  }
  try {
    made->await_all();
  } catch (...) {
    made.reset();
    remove_leftovers();
    throw;
  }
  return made;
}

}  // namespace camshaft

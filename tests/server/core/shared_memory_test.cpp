#include "server/core/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "server/core/cuda_memory.h"

namespace camshaft::server::shared_memory_test {
namespace {

// A file of shared memory, as a client makes it.
class ClientMemory {
 public:
  explicit ClientMemory(size_t size)
      : key_("/camshaft_test_" + std::to_string(getpid()) + "_" + std::to_string(count_++)) {
    file_ = shm_open(key_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    resize(size);
    data_ = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
    size_ = size;
  }
  ~ClientMemory() {
    munmap(data_, size_);
    close(file_);
    shm_unlink(key_.c_str());
  }
  void resize(size_t size) { ASSERT_EQ(ftruncate(file_, static_cast<off_t>(size)), 0); }
  const std::string& key() const { return key_; }
  char* data() const { return data_; }

 private:
  static inline int count_ = 0;
  std::string key_;
  int file_ = -1;
  char* data_ = nullptr;
  size_t size_ = 0;
};

StatusCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ServerError& error) {
    return error.code();
  }
  return StatusCode::ok;
}

TEST(SharedMemory, BothSidesSeeTheSame) {
  const ClientMemory client(20000);
  SharedMemory memory(true);
  memory.register_region("r", client.key(), 5000, 10000);
  std::strcpy(client.data() + 5008, "hello");
  const SharedMemory::Slice slice = memory.slice("r", 8, 6);
  EXPECT_STREQ(reinterpret_cast<const char*>(slice.span.data()), "hello");
  slice.span[0] = std::byte{'j'};
  EXPECT_STREQ(client.data() + 5008, "jello");
  EXPECT_FALSE(slice.damaged());
  const auto status = memory.status("r");
  ASSERT_EQ(status.size(), 1u);
  EXPECT_EQ(status[0].key, client.key());
  EXPECT_EQ(status[0].offset, 5000u);
  EXPECT_EQ(status[0].byte_size, 10000u);
}

TEST(SharedMemory, WhatLiesBeyondIsRefused) {
  const ClientMemory client(4096);
  SharedMemory memory(true);
  constexpr uint64_t huge = ~uint64_t{0};
  for (const auto& [offset, size] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 4097}, {1, 4096}, {4096, 1}, {huge, 1}, {1, huge}, {huge, huge}, {0, 0}})
    EXPECT_EQ(code_of([&, o = offset, s = size] { memory.register_region("r", client.key(), o, s); }),
              StatusCode::invalid_argument)
        << offset;
  memory.register_region("r", client.key(), 96, 4000);
  EXPECT_EQ(code_of([&] { memory.register_region("r", client.key(), 0, 1); }), StatusCode::already_exists);
  for (const auto& [offset, size] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, 4001}, {4000, 1}, {4001, 0}, {huge, 1}, {1, huge}, {huge, huge}})
    EXPECT_EQ(code_of([&, o = offset, s = size] { memory.slice("r", o, s); }), StatusCode::invalid_argument) << offset;
  EXPECT_EQ(memory.slice("r", 4000, 0).span.size(), 0u);
  EXPECT_EQ(code_of([&] { memory.slice("other", 0, 1); }), StatusCode::invalid_argument);
  EXPECT_EQ(code_of([&] { memory.status("other"); }), StatusCode::not_found);
}

TEST(SharedMemory, KeysThatLeadElsewhere) {
  SharedMemory memory(true);
  for (const char* key : {"", "/", "name", "/a/b", "/../etc/passwd", "/..", "/.", "/no_such_region_of_camshaft"})
    EXPECT_EQ(code_of([&] { memory.register_region("r", key, 0, 1); }), StatusCode::invalid_argument) << key;
}

TEST(SharedMemory, OffUnlessAllowed) {
  SharedMemory memory(false);
  EXPECT_EQ(code_of([&] { memory.register_region("r", "/x", 0, 1); }), StatusCode::unsupported);
  EXPECT_EQ(code_of([&] { memory.unregister(""); }), StatusCode::unsupported);
  EXPECT_TRUE(memory.status("").empty());
}

TEST(SharedMemory, HandlesThatNoGpuOpens) {
  SharedMemory memory(true);
  const std::string handle(64, '\1');
  const auto refused = has_cuda_device() ? StatusCode::invalid_argument : StatusCode::unsupported;
  EXPECT_EQ(code_of([&] { memory.register_cuda_region("r", handle, 0, 16); }), refused);
  EXPECT_EQ(code_of([&] { memory.register_cuda_region("r", "short", 0, 16); }), refused);
  EXPECT_EQ(code_of([&] { memory.register_cuda_region("r", handle, -1, 16); }), refused);
  EXPECT_EQ(code_of([&] { memory.register_cuda_region("", handle, 0, 16); }), StatusCode::invalid_argument);
  EXPECT_TRUE(memory.cuda_status("").empty());
  EXPECT_EQ(code_of([&] { memory.cuda_status("r"); }), StatusCode::not_found);
  memory.unregister_cuda("r");  // no error, as clients clean up what may be gone
  SharedMemory forbidden(false);
  EXPECT_EQ(code_of([&] { forbidden.register_cuda_region("r", handle, 0, 16); }), StatusCode::unsupported);
  EXPECT_EQ(code_of([&] { forbidden.unregister_cuda(""); }), StatusCode::unsupported);
}

TEST(SharedMemory, StaysWhileARequestUsesIt) {
  const ClientMemory client(4096);
  SharedMemory memory(true);
  memory.register_region("r", client.key(), 0, 4096);
  const SharedMemory::Slice slice = memory.slice("r", 0, 4096);
  memory.unregister("r");
  memory.unregister("r");  // no error, as clients clean up what may be gone
  EXPECT_TRUE(memory.status("").empty());
  slice.span[4095] = std::byte{7};
  EXPECT_EQ(client.data()[4095], 7);
  memory.register_region("r", client.key(), 0, 1);
  memory.register_region("s", client.key(), 0, 1);
  memory.unregister("");
  EXPECT_TRUE(memory.status("").empty());
}

TEST(SharedMemory, ClientThatCutsItShort) {
  ClientMemory client(3 * 4096);
  std::memset(client.data(), 1, 3 * 4096);
  SharedMemory memory(true);
  memory.register_region("r", client.key(), 0, 3 * 4096);
  const SharedMemory::Slice before = memory.slice("r", 0, 3 * 4096);
  client.resize(4096);
  EXPECT_EQ(code_of([&] { memory.slice("r", 0, 2 * 4096); }), StatusCode::invalid_argument);
  EXPECT_NO_THROW(memory.slice("r", 0, 4096));
  EXPECT_FALSE(before.damaged());
  // What was in use reads as zeros behind the end, takes what is written, and is known to be no answer.
  std::vector<std::byte> copy(before.span.begin(), before.span.end());
  EXPECT_EQ(copy[4095], std::byte{1});
  EXPECT_EQ(copy[4096], std::byte{0});
  before.span[3 * 4096 - 1] = std::byte{5};
  EXPECT_TRUE(before.damaged());
  EXPECT_EQ(code_of([&] { memory.slice("r", 0, 1); }), StatusCode::invalid_argument);
  memory.unregister("r");
  EXPECT_NO_THROW(memory.register_region("r", client.key(), 0, 4096));
}

TEST(SharedMemory, OtherBusErrorsStillEndTheProcess) {
  const ClientMemory client(4096);
  SharedMemory memory(true);
  memory.register_region("r", client.key(), 0, 4096);
  ClientMemory own(4096);  // removed here, as the child is not to live
  // A sanitizer, whose handler stands before ours, tells of the signal and exits: by 1, ThreadSanitizer by 66.
  const auto ended_by_it = [](int status) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return testing::KilledBySignal(SIGBUS)(status) || code == 1 || code == 66;
  };
  EXPECT_EXIT(
      {
        own.resize(0);
        own.data()[0] = 1;
      },
      ended_by_it, "");
}

}  // namespace
}  // namespace camshaft::server::shared_memory_test

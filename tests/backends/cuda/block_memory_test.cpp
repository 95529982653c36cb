// Device memory that several addresses share, and streams that join what another one records.
#include "backends/cuda/driver/block_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "backends/cuda/driver/recording.h"
#include "backends/cuda/libraries/libraries.h"
#include "backends/cuda/run_node.h"
#include "base/error.h"

namespace camshaft::cuda::block_memory_test {
namespace {

class CudaBlocks : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    device = std::make_unique<Device>(driver_library().functions, 0);
  }
  std::vector<std::byte> read(const std::byte* from, size_t bytes) const {
    std::vector<std::byte> to(bytes);
    const Stream stream(*device);
    stream.copy_to_host(to, from);
    stream.synchronize();
    return to;
  }
  void write(std::byte* to, size_t bytes, int value) const {
    const Stream stream(*device);
    stream.copy_to_device(to, std::vector<std::byte>(bytes, std::byte(value)));
    stream.synchronize();
  }

  std::unique_ptr<Device> device;
};

TEST_F(CudaBlocks, OfOneSlotHaveTheSameBytes) {
  const size_t block = BlockMemory::granularity(*device);
  const int64_t free = device->free_bytes();
  {
    const std::array<int32_t, 6> slots = {-1, 0, 1, -1, -1, 0};
    const BlockMemory memory(*device, slots, block, "a test");
    EXPECT_LE(free - device->free_bytes(), static_cast<int64_t>(5 * block + (size_t{4} << 20)));
    std::byte* const at = memory.data();
    for (int b = 0; b < 6; ++b) write(at + static_cast<size_t>(b) * block, block, b + 1);
    EXPECT_EQ(read(at, block), std::vector<std::byte>(block, std::byte(1)));
    EXPECT_EQ(read(at + block, block), std::vector<std::byte>(block, std::byte(6)));
    EXPECT_EQ(read(at + 5 * block, block), std::vector<std::byte>(block, std::byte(6)));
    EXPECT_EQ(read(at + 2 * block, block), std::vector<std::byte>(block, std::byte(3)));
    // Across blocks that have memory of their own.
    write(at + 3 * block, 2 * block, 9);
    EXPECT_EQ(read(at + 3 * block, 2 * block), std::vector<std::byte>(2 * block, std::byte(9)));
  }
  EXPECT_GE(device->free_bytes(), free - (int64_t{4} << 20));
}

TEST_F(CudaBlocks, TooManyAreNamed) {
  const size_t block = BlockMemory::granularity(*device);
  const std::vector<int32_t> slots(static_cast<size_t>(device->facts().memory_bytes) / block + 1, -1);
  try {
    const BlockMemory memory(*device, slots, block, "a test of too much");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("a test of too much"), std::string::npos) << error.what();
  }
}

TEST_F(CudaBlocks, CopiesJoinARecording) {
  const Stream main(*device), side(*device);
  const DeviceBuffer a(*device, 256, "a test"), b(*device, 256, "a test");
  api::Handle taken = nullptr;
  const api::Driver& driver = device->driver();
  {
    const Current current(*device);
    ASSERT_EQ(driver.cuMemAllocHost_v2(&taken, 256), api::success);
  }
  auto* const pinned = static_cast<std::byte*>(taken);
  Event fork(*device), join(*device);
  Recording::begin(main);
  fork.record(main);
  fork.hold_back(side);
  side.copy_to_device(a.data(), {pinned, 256});
  join.record(side);
  join.hold_back(main);
  main.copy_from(b.data(), {a.data(), 256}, *device);
  const Recording recording(main);
  for (const int value : {1, 2, 3}) {
    std::memset(pinned, value, 256);
    recording.launch(main);
    main.synchronize();
    EXPECT_EQ(read(b.data(), 256), std::vector<std::byte>(256, std::byte(value)));
  }
  // A stream that does not come back to the one that is recorded.
  Recording::begin(main);
  fork.record(main);
  fork.hold_back(side);
  side.copy_to_device(a.data(), {pinned, 256});
  EXPECT_THROW(static_cast<void>(Recording(main)), Error);
  side.copy_to_device(a.data(), {pinned, 256});
  side.synchronize();
  const Current current(*device);
  driver.cuMemFreeHost(taken);
}

}  // namespace
}  // namespace camshaft::cuda::block_memory_test

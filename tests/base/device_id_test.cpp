// Names of devices.
#include "base/device_id.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace camshaft::device_id_test {
namespace {

TEST(DeviceId, ValuesAreOrderedTheHostFirst) {
  EXPECT_EQ(DeviceId(), DeviceId::host);
  EXPECT_TRUE(DeviceId::host.is_host());
  EXPECT_EQ(DeviceId::host.ordinal(), -1);
  EXPECT_TRUE(DeviceId::gpu(3).is_gpu());
  EXPECT_EQ(DeviceId::gpu(3).ordinal(), 3);
  EXPECT_LT(DeviceId::host, DeviceId::gpu(0));
  EXPECT_LT(DeviceId::gpu(0), DeviceId::gpu(1));
}

TEST(DeviceId, NamesAreReadAsTheyAreWritten) {
  for (const DeviceId device : {DeviceId::host, DeviceId::gpu(0), DeviceId::gpu(12)})
    EXPECT_EQ(parse_device_id(to_string(device)), device);
  EXPECT_EQ(to_string(DeviceId::host), "cpu");
  EXPECT_EQ(to_string(DeviceId::gpu(1)), "cuda:1");
  EXPECT_EQ(parse_device_id("cuda"), DeviceId::gpu(0));
}

TEST(DeviceId, OtherWordsAreRefused) {
  for (const char* word : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "cpu:0", "CUDA"}) {
    try {
      parse_device_id(word);
      ADD_FAILURE() << word;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(std::string(e.what()),
                "'" + std::string(word) +
                    "' is no device: give cpu, cuda (the first GPU), or a GPU by its number, as cuda:1");
    }
  }
}

}  // namespace
}  // namespace camshaft::device_id_test

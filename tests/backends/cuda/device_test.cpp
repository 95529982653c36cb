// The device layer against a driver that is made up.
#include "backends/cuda/driver/device.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cuda/driver/memory.h"
#include "backends/cuda/driver/stream.h"
#include "base/error.h"

namespace camshaft::cuda::device_test {
namespace {

// Two GPUs, the second too old; 1000 bytes of memory.
struct FakeDriver {
  static inline int contexts = 0, current = 0, allocations = 0;
  static inline api::Result start = api::success;

  static api::Driver table() {
    contexts = current = allocations = 0;
    start = api::success;
    api::Driver driver;
    driver.cuInit = [](unsigned) { return start; };
    driver.cuGetErrorName = [](api::Result, const char** name) {
      *name = "CUDA_ERROR_MADE_UP";
      return api::Result{api::success};
    };
    driver.cuGetErrorString = [](api::Result, const char** text) {
      *text = "made up";
      return api::Result{api::success};
    };
    driver.cuDeviceGetCount = [](int* count) {
      *count = 2;
      return api::Result{api::success};
    };
    driver.cuDeviceGet = [](api::Device* device, int ordinal) {
      *device = ordinal;
      return api::Result{api::success};
    };
    driver.cuDeviceGetName = [](char* name, int, api::Device device) {
      std::strcpy(name, device == 0 ? "new" : "old");  // NOLINT: both fit
      return api::Result{api::success};
    };
    driver.cuDeviceGetPCIBusId = [](char* id, int, api::Device device) {
      std::strcpy(id, device == 0 ? "0000:1B:00.0" : "0000:1C:00.0");  // NOLINT: both fit
      return api::Result{api::success};
    };
    driver.cuDeviceTotalMem_v2 = [](size_t* bytes, api::Device) {
      *bytes = 1000;
      return api::Result{api::success};
    };
    driver.cuDeviceGetAttribute = [](int* value, int attribute, api::Device device) {
      *value = attribute == api::capability_major ? (device == 0 ? 9 : 6) : attribute == api::capability_minor ? 0 : 7;
      return api::Result{api::success};
    };
    driver.cuDevicePrimaryCtxRetain = [](api::Handle* context, api::Device) {
      *context = &contexts;
      ++contexts;
      return api::Result{api::success};
    };
    driver.cuDevicePrimaryCtxRelease_v2 = [](api::Device) {
      --contexts;
      return api::Result{api::success};
    };
    driver.cuCtxPushCurrent_v2 = [](api::Handle) {
      ++current;
      return api::Result{api::success};
    };
    driver.cuCtxPopCurrent_v2 = [](api::Handle*) {
      --current;
      return api::Result{api::success};
    };
    driver.cuMemGetInfo_v2 = [](size_t* free, size_t* total) {
      *free = 600;
      *total = 1000;
      return api::Result{api::success};
    };
    driver.cuMemAlloc_v2 = [](api::Pointer* memory, size_t bytes) {
      if (bytes > 600) return api::Result{api::error_out_of_memory};
      *memory = 256;
      ++allocations;
      return api::Result{api::success};
    };
    driver.cuMemFree_v2 = [](api::Pointer) {
      --allocations;
      return api::Result{api::success};
    };
    driver.cuStreamCreate = [](api::Handle*, unsigned) { return api::Result{719}; };
    return driver;
  }
};

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return std::string(to_string(e.code())) + ": " + e.what();
  }
  return "";
}

TEST(Device, FactsAndLifetime) {
  const api::Driver driver = FakeDriver::table();
  const auto devices = list_devices(driver);
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].name, "new");
  EXPECT_EQ(devices[0].bus_id, "0000:1B:00.0");
  EXPECT_EQ(devices[0].features.capability, 90);
  EXPECT_EQ(devices[0].multiprocessors, 7);
  EXPECT_EQ(devices[0].memory_bytes, 1000);
  {
    const Device device(driver, 0);
    EXPECT_EQ(FakeDriver::contexts, 1);
    EXPECT_EQ(device.free_bytes(), 600);
    EXPECT_EQ(FakeDriver::current, 0) << "left as it was";
  }
  EXPECT_EQ(FakeDriver::contexts, 0);
}

TEST(Device, Refusals) {
  const api::Driver driver = FakeDriver::table();
  EXPECT_EQ(message([&] { Device(driver, 2); }),
            "unsupported: there is no GPU 2; this machine has GPU 0, new; GPU 1, old");
  EXPECT_EQ(message([&] { Device(driver, 1); }),
            "unsupported: GPU 1, old, has compute capability 6.0; 7.5 or newer is needed");
  FakeDriver::start = api::error_no_device;
  EXPECT_TRUE(list_devices(driver).empty());
  FakeDriver::start = 999;
  EXPECT_EQ(message([&] { list_devices(driver); }),
            "internal error: CUDA failed in starting the driver: CUDA_ERROR_MADE_UP (made up)");
}

TEST(Device, MemoryIsFreedAndItsLackExplained) {
  const api::Driver driver = FakeDriver::table();
  const Device device(driver, 0);
  {
    DeviceBuffer buffer(device, 100, "a test");
    EXPECT_EQ(buffer.size(), 100U);
    const DeviceBuffer moved = std::move(buffer);
    EXPECT_EQ(FakeDriver::allocations, 1);
    EXPECT_EQ(DeviceBuffer(device, 0, "nothing").data(), nullptr);
  }
  EXPECT_EQ(FakeDriver::allocations, 0);
  EXPECT_EQ(message([&] { DeviceBuffer(device, 2000, "the weights of an engine"); }),
            "out of memory: out of memory on GPU 0: 2.0 KiB for the weights of an engine, 600 bytes are free");
}

TEST(Device, WhatFailsInAConstructorLeavesNothing) {
  const api::Driver driver = FakeDriver::table();
  const Device device(driver, 0);
  EXPECT_NE(message([&] { Stream{device}; }).find("making a stream"), std::string::npos);
  EXPECT_EQ(FakeDriver::current, 0);
}

}  // namespace
}  // namespace camshaft::cuda::device_test

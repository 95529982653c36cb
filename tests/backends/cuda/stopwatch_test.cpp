// Timing work on a device, and bringing memory into its cache.
#include "backends/cuda/driver/stopwatch.h"

#include <gtest/gtest.h>

#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/driver/recording.h"
#include "backends/cuda/run_node.h"

namespace camshaft::cuda::stopwatch_test {
namespace {

TEST(CudaStopwatch, TouchingTakesTimeAndChangesNothing) {
  SKIP_WITHOUT_GPU();
  const Device device(driver_library().functions, 0);
  const Stream stream(device);
  const Module module(
      device,
      Compiler(nvrtc_library()).compile({"touch", touch_text(), architecture(device.facts().features.capability)}));
  std::vector<std::byte> bytes(100'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  const DeviceBuffer memory = upload(device, bytes, "a test");
  Stopwatch watch(stream, module.function("touch"));
  EXPECT_GT(watch.cache_bytes(), 0u);

  Recording::begin(stream);
  watch.touch(memory.data(), bytes.size(), false);
  watch.touch(memory.data(), bytes.size(), true);
  watch.touch(memory.data(), 0, true);
  Recording recording(stream);
  watch.start();
  recording.launch(stream);
  watch.stop();
  EXPECT_GT(watch.seconds(), 0);
  EXPECT_LT(watch.seconds(), 10);
  std::vector<std::byte> after(bytes.size());
  stream.copy_to_host(after, memory.data());
  stream.synchronize();
  EXPECT_TRUE(after == bytes);
}

TEST(CudaStopwatchText, Compiles) {
  if (!nvrtc_library().problem.empty()) GTEST_SKIP() << nvrtc_library().problem;
  for (const int capability : {75, 80, 90}) {
    const Cubin cubin = Compiler(nvrtc_library()).compile({"touch", touch_text(), architecture(capability)});
    EXPECT_FALSE(cubin.empty());
  }
}

}  // namespace
}  // namespace camshaft::cuda::stopwatch_test

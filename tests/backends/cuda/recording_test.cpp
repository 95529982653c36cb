// Recording a stream and launching what was recorded.
#include "backends/cuda/driver/recording.h"

#include <gtest/gtest.h>

#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/driver/memory.h"
#include "backends/cuda/driver/module.h"
#include "backends/cuda/run_node.h"
#include "base/error.h"

namespace camshaft::cuda::recording_test {
namespace {

class RecordingTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    device = std::make_unique<Device>(driver_library().functions, 0);
    stream = std::make_unique<Stream>(*device);
    number = std::make_unique<DeviceBuffer>(*device, sizeof(int), "a test");
    const Module module(*device,
                        Compiler(nvrtc_library())
                            .compile({"step", "extern \"C\" __global__ void step(int* x, int by) { *x += by; }",
                                      architecture(device->facts().features.capability)}));
    step = module.function("step");
    constexpr int zero = 0;
    stream->copy_to_device(number->data(), std::as_bytes(std::span(&zero, 1)));
  }

  void add(int by, unsigned blocks = 1) const {
    std::byte* pointer = number->data();
    void* const arguments[] = {&pointer, &by};
    step.launch(*stream, {.blocks = blocks, .may_start_early = false}, arguments);
  }

  int value() const {
    int x = -1;
    stream->copy_to_host(std::as_writable_bytes(std::span(&x, 1)), number->data());
    stream->synchronize();
    return x;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<DeviceBuffer> number;
  Function step;
};

TEST_F(RecordingTest, WhatIsRecordedRunsWheneverItIsLaunched) {
  add(1);
  Recording::begin(*stream);
  add(10);
  add(100);
  Recording recording(*stream);
  EXPECT_EQ(value(), 1);
  for (int times = 1; times <= 3; ++times) {
    recording.launch(*stream);
    add(1000);
  }
  EXPECT_EQ(value(), 1 + 3 * 110 + 3000);
}

TEST_F(RecordingTest, PartsGetOtherArguments) {
  if (!device->driver().cuStreamGetCaptureInfo_v3) GTEST_SKIP() << "the driver is too old";
  Recording::begin(*stream);
  RecordingParts parts;
  add(1);
  parts.finish(*stream);
  add(10);
  add(20);
  parts.finish(*stream);
  parts.finish(*stream);
  add(100);
  parts.finish(*stream);
  Recording recording(*stream, parts);
  ASSERT_EQ(parts.nodes().size(), 4U);
  EXPECT_EQ(parts.nodes()[1], nullptr) << "two kernels";
  EXPECT_EQ(parts.nodes()[2], nullptr) << "none";
  const auto replace = [&](size_t part, auto&& put) {
    Recording::begin(*stream);
    put();
    return recording.replace(part, *stream);
  };
  recording.launch(*stream);
  EXPECT_TRUE(replace(3, [&] { add(500); }));
  recording.launch(*stream);
  EXPECT_TRUE(replace(0, [&] { add(4); }));
  recording.launch(*stream);
  EXPECT_EQ(value(), 131 + 531 + 534) << "what was launched before keeps its arguments";
  EXPECT_FALSE(replace(1, [&] { add(7); }));
  EXPECT_FALSE(replace(2, [&] { add(7); }));
  EXPECT_FALSE(replace(4, [&] { add(7); })) << "there is no such part";
  EXPECT_FALSE(replace(0, [&] {})) << "no kernel";
  EXPECT_FALSE(replace(0, [&] {
    add(7);
    add(8);
  }));
  EXPECT_FALSE(replace(0, [&] { add(7, 2); })) << "launched otherwise";
  recording.launch(*stream);
  EXPECT_EQ(value(), 131 + 531 + 2 * 534);
}

TEST_F(RecordingTest, WaitingCannotBeRecorded) {
  Recording::begin(*stream);
  add(1);
  EXPECT_THROW(stream->synchronize(), Error);
  EXPECT_THROW(Recording{*stream}, Error);
  add(5);
  EXPECT_EQ(value(), 5);
}

}  // namespace
}  // namespace camshaft::cuda::recording_test

// The C++ layer over the C interface.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <span>
#include <thread>

#include "camshaft/camshaft.hpp"
#include "doubling_model.h"

namespace camshaft::cpp_layer_test {
namespace {

Engine build_doubling() {
  const std::string model = api::doubling_model();
  return Builder(BuildOptions().set("tuning", "heuristic")).build(std::as_bytes(std::span(model)), "doubling.onnx");
}

TEST(CppLayer, BuildsSavesLoadsAndRunsInMemory) {
  const Engine engine = Engine::load(build_doubling().save(), "cpu");
  EXPECT_EQ(engine.device(), Device());
  EXPECT_EQ(engine.device_info()["kind"].text(), "cpu");
  const Workers workers(1);
  const ContextOptions options = std::move(ContextOptions().set_workers(workers));
  Context first = engine.create_context(options), second = engine.create_context(options);
  float value = 1;
  for (Context* context : {&first, &second}) {
    const std::vector<float> x = {value, -value};
    context->set_input("x", {2}, x.data());
    context->run();
    EXPECT_EQ(context->output("y"), Tensor::of<float>(DType::f32, {2}, {2 * value, -2 * value}));
    ++value;
  }
  EXPECT_THROW(BuildOptions().set_workers(workers), Error);
  EXPECT_THROW(Workers(-1), Error);
}

TEST(CppLayer, ContextsCopyMemory) {
  Context context = build_doubling().create_context();
  const Tensor pinned = Tensor::pinned("cpu", DType::f32, {3});
  EXPECT_EQ(pinned, Tensor::of<float>(DType::f32, {3}, {0, 0, 0}));
  Tensor to = pinned;
  const float values[] = {1, 2, 3};
  context.copy(to.mutable_data(), to.device(), values, {}, sizeof values);
  EXPECT_EQ(to, Tensor::of<float>(DType::f32, {3}, {1, 2, 3}));
  context.copy(to.mutable_data() + 4, {}, to.data(), {}, 8);  // they may overlap
  EXPECT_EQ(to, Tensor::of<float>(DType::f32, {3}, {1, 1, 2}));
  context.copy(nullptr, {}, nullptr, {}, 0);
  EXPECT_THROW(context.copy(nullptr, {}, values, {}, 4), Error);
  EXPECT_THROW(context.copy(to.mutable_data(), {Device::cuda, 0}, values, {}, 4), Error)
      << "the engine runs on the CPU";
  EXPECT_THROW(Tensor::pinned("cpu", DType::f32, {-1}), Error);
  EXPECT_THROW(Tensor::pinned("nowhere", DType::f32, {1}), Error);
}

TEST(CppLayer, DevicesHaveNames) {
  EXPECT_EQ(to_string(Device()), "cpu");
  EXPECT_EQ(to_string(parse_device("cuda")), "cuda:0");
  EXPECT_EQ(parse_device("cuda:2"), (Device{Device::cuda, 2}));
  EXPECT_THROW(parse_device("gpu"), Error);
  EXPECT_GE(available_cores(), 1);
  EXPECT_EQ(devices()[0]["device"].text(), "cpu");
}

TEST(CppLayer, AContextThatIsReplacedKeepsItsTapsUntilItsRunHasEnded) {
  const Engine engine = build_doubling();
  Context context = engine.create_context();
  const float x[] = {1, 2};
  context.set_input("x", {2}, x);
  struct Seen {  // what the tap holds says when it is freed
    std::promise<void> in_tap;
    std::atomic<bool> is_tap_freed{false}, was_freed_in_call{false};
  } seen;
  struct Holder {
    Seen* seen;
    ~Holder() { seen->is_tap_freed = true; }
  };
  context.set_tap("y", [&seen, holder = std::make_shared<Holder>(&seen)](const Tensor&) {
    Seen& all = seen;  // the function itself may be freed below
    all.in_tap.set_value();
    for (int tenth = 0; tenth < 30 && !all.is_tap_freed; ++tenth)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    all.was_freed_in_call = all.is_tap_freed.load();
  });
  context.run_async([](std::exception_ptr) {});
  seen.in_tap.get_future().wait();
  context = engine.create_context();
  EXPECT_TRUE(seen.is_tap_freed);
  EXPECT_FALSE(seen.was_freed_in_call);
  context.set_input("x", {2}, x);
  context.run();
}

TEST(CppLayer, WhatACallbackThrowsComesBack) {
  const Engine engine = build_doubling();
  Context context = engine.create_context();
  const float x[] = {1, 2};
  context.set_input("x", {2}, x);
  context.set_tap("y", [](const Tensor&) { throw std::out_of_range("of the tap"); });
  EXPECT_THROW(context.run(), std::out_of_range);
  context.set_tap("y", {});
  context.run();
}

}  // namespace
}  // namespace camshaft::cpp_layer_test

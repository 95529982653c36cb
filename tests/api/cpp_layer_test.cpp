// The C++ layer over the C interface.
#include <gtest/gtest.h>

#include <span>

#include "camshaft/camshaft.hpp"
#include "doubling_model.h"

namespace camshaft {
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

TEST(CppLayer, DevicesHaveNames) {
  EXPECT_EQ(to_string(Device()), "cpu");
  EXPECT_EQ(to_string(parse_device("cuda")), "cuda:0");
  EXPECT_EQ(parse_device("cuda:2"), (Device{Device::cuda, 2}));
  EXPECT_THROW(parse_device("gpu"), Error);
  EXPECT_GE(available_cores(), 1);
  EXPECT_EQ(devices()[0]["device"].text(), "cpu");
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
}  // namespace camshaft

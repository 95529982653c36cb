// Which device has each value, and the copies that this takes.
#include "compile/plan/place_values.h"

#include <gtest/gtest.h>

#include <cstring>

#include "compile/fake_backend.h"
#include "compile/lower.h"
#include "compile/plan/aliased_inputs.h"
#include "compile/plan/bound_plan.h"
#include "ir/ops/operators.h"
#include "ir/text.h"

namespace camshaft::place_values_test {
namespace {

// `transpose` runs on the device, everything else on the host.
struct Placed {
  Graph graph;
  PackedConstants constants;
  Plan plan;

  explicit Placed(const std::string& text) : graph(parse_graph(text, operators())) {
    plan = lower(graph, FakeBackend({"transpose"}), constants, {});
  }
  const PlanValue& value(const std::string& name) const {
    for (const PlanValue& v : plan.values)
      if (v.name == name) return v;
    ADD_FAILURE() << name;
    return plan.values[0];
  }
};

TEST(PlaceValues, NeighboursOnTheDeviceStayThere) {
  const Placed p(R"(graph (%x: f32[n, 6]) {
    %a = transpose {permutation=[1, 0]} (%x)
    %b = transpose {permutation=[1, 0]} (%a)
    return "y" = %b
  })");
  EXPECT_EQ(to_string(p.plan),
            "x (on the device): f32[n, 6] = copy[copy_to_device](x: f32[n, 6])\n"
            "a: f32[6, n] = transpose[on_device](x (on the device): f32[n, 6])\n"
            "b (on the device): f32[n, 6] = transpose[on_device](a: f32[6, n])\n"
            "b: f32[n, 6] = copy[copy_to_host](b (on the device): f32[n, 6])\n");
  EXPECT_EQ(p.value("a").device, DeviceId::gpu(0));
  EXPECT_EQ(p.value("b").device, DeviceId::host);
  EXPECT_EQ(p.value("b").storage, Storage::output);
  EXPECT_EQ(p.value("b (on the device)").storage, Storage::arena);
}

TEST(PlaceValues, InputsAreCopiedBeforeTheFirstStepOnTheDevice) {
  const Placed p(R"(graph (%x: f32[n, 6], %z: f32[n, 6]) {
    %a = transpose {permutation=[1, 0]} (%x)
    %b = transpose {permutation=[1, 0]} (%z)
    return %a, %b
  })");
  EXPECT_EQ(to_string(p.plan),
            "x (on the device): f32[n, 6] = copy[copy_to_device](x: f32[n, 6])\n"
            "z (on the device): f32[n, 6] = copy[copy_to_device](z: f32[n, 6])\n"
            "a (on the device): f32[6, n] = transpose[on_device](x (on the device): f32[n, 6])\n"
            "b (on the device): f32[6, n] = transpose[on_device](z (on the device): f32[n, 6])\n"
            "a: f32[6, n] = copy[copy_to_host](a (on the device): f32[6, n])\n"
            "b: f32[6, n] = copy[copy_to_host](b (on the device): f32[6, n])\n");
}

// What the host updates in place is copied to the device like anything else: the copy has room in the arena.
TEST(PlaceValues, WhatTheHostUpdatesInPlaceHasACopyOnTheDevice) {
  const Placed p(R"(graph (%x: f32[n, 6]) {
    %y = pointwise {function=neg} (%x)
    %z = transpose {permutation=[1, 0]} (%y)
    return %y, %z
  })");
  EXPECT_EQ(aliased_inputs(p.plan), (std::vector<int32_t>{0, -1}));
  EXPECT_EQ(p.value("y (on the device)").storage, Storage::arena);
  EXPECT_FALSE(p.value("y (on the device)").is_apart);
}

TEST(PlaceValues, CopiesAreMadeOnceAndThroughViews) {
  const Placed p(R"(graph (%x: f32[n, 6]) {
    %a = pointwise {function=neg} (%x)
    %v = reshape {shape=shape(2*n, 3)} (%a)
    %b = transpose {permutation=[1, 0]} (%v)
    %c = transpose {permutation=[1, 0]} (%a)
    %d = pointwise {function=exp} (%b)
    %e = pointwise {function=exp} (%b)
    return %d, %e, %c
  })");
  EXPECT_EQ(to_string(p.plan),
            "a: f32[n, 6] = pointwise[fast](x: f32[n, 6])\n"
            "a (on the device): f32[n, 6] = copy[copy_to_device](a: f32[n, 6])\n"
            "b: f32[3, 2*n] = transpose[on_device](v (on the device): f32[2*n, 3])\n"
            "c (on the device): f32[6, n] = transpose[on_device](a (on the device): f32[n, 6])\n"
            "b (on the host): f32[3, 2*n] = copy[copy_to_host](b: f32[3, 2*n])\n"
            "d: f32[3, 2*n] = pointwise[fast](b (on the host): f32[3, 2*n])\n"
            "e: f32[3, 2*n] = pointwise[fast](b (on the host): f32[3, 2*n])\n"
            "c: f32[6, n] = copy[copy_to_host](c (on the device): f32[6, n])\n");
}

TEST(PlaceValues, OutputsThatAreReadBeforeTheEnd) {
  const Placed p(R"(graph (%x: f32[n, 6]) {
    %a = transpose {permutation=[1, 0]} (%x)
    %b = pointwise {function=neg} (%a)
    return "a" = %a, "again" = %a, "b" = %b
  })");
  EXPECT_EQ(to_string(p.plan),
            "x (on the device): f32[n, 6] = copy[copy_to_device](x: f32[n, 6])\n"
            "a (on the device): f32[6, n] = transpose[on_device](x (on the device): f32[n, 6])\n"
            "a: f32[6, n] = copy[copy_to_host](a (on the device): f32[6, n])\n"
            "b: f32[6, n] = pointwise[fast](a: f32[6, n])\n"
            "again: f32[6, n] = copy[copy](a: f32[6, n])\n");
}

TEST(PlaceValues, SizesThatOnlyRunningTellsStayOnTheHost) {
  const Placed p(R"(graph (%x: f32[], %m: f32[k, 2]) {
    %r = range (%x, %x, %x)
    %a = transpose {permutation=[0]} (%r)
    %b = transpose {permutation=[1, 0]} (%m)
    return %a, %b
  })");
  EXPECT_EQ(p.plan.steps[1].tactic, "fast");
  EXPECT_EQ(p.value("a").storage, Storage::dynamic);
  EXPECT_EQ(p.plan.steps[3].tactic, "on_device");
}

// The branches' kernel allocates all of its results when it runs, as the size of one of them is not known before.
TEST(PlaceValues, ResultsThatAreAllocatedWhenRunningStayOnTheHost) {
  const Placed p(R"(graph (%c: bool[], %x: f32[n, 2]) {
    %r, %s = if {} (%c, %x)
      graph "then" (%a: f32[n, 2]) {
        %t = concat {axis=0} (%a, %a)
        return "r" = %t, "s" = %a
      }
      graph "else" (%a: f32[n, 2]) {
        %u = pointwise {function=neg} (%a)
        return "r" = %u, "s" = %u
      }
    %v = reshape {shape=shape(2*n)} (%s)
    %y = transpose {permutation=[0]} (%v)
    return "r" = %r, "y" = %y
  })");
  EXPECT_EQ(p.value("s").storage, Storage::dynamic);
  EXPECT_EQ(p.plan.steps[1].tactic, "fast");
}

// What one GPU computes and another one reads is copied between them, also where the caller gets it.
TEST(PlaceValues, CopiesBetweenTwoGpus) {
  Graph graph = parse_graph(R"(graph (%x: f32[n, 6]) {
    %a = transpose {permutation=[1, 0]} (%x)
    %b = pointwise {function=neg} (%a)
    %c = transpose {permutation=[1, 0]} (%b)
    return "a" = %a, "c" = %c
  })",
                            operators());
  PackedConstants constants;
  Plan plan = lower(graph, FakeBackend(), constants, {});
  EXPECT_EQ(plan.devices(), std::vector{DeviceId::host});
  plan.steps[0].device = plan.steps[2].device = DeviceId::gpu(0);
  plan.steps[1].device = DeviceId::gpu(1);
  EXPECT_EQ(plan.devices(), (std::vector{DeviceId::host, DeviceId::gpu(0), DeviceId::gpu(1)}));
  place_values(plan);
  EXPECT_EQ(to_string(plan),
            "x (on cuda:0): f32[n, 6] = copy[copy_to_device](x: f32[n, 6])\n"
            "a (on cuda:0): f32[6, n] = transpose[fast](x (on cuda:0): f32[n, 6])\n"
            "a (on cuda:1): f32[6, n] = copy[copy_between_devices](a (on cuda:0): f32[6, n])\n"
            "b: f32[6, n] = pointwise[fast](a (on cuda:1): f32[6, n])\n"
            "b (on cuda:0): f32[6, n] = copy[copy_between_devices](b: f32[6, n])\n"
            "c (on cuda:0): f32[n, 6] = transpose[fast](b (on cuda:0): f32[6, n])\n"
            "a: f32[6, n] = copy[copy_to_host](a (on cuda:0): f32[6, n])\n"
            "c: f32[n, 6] = copy[copy_to_host](c (on cuda:0): f32[n, 6])\n");
  std::vector<DeviceId> devices;
  for (const PlanStep& step : plan.steps) devices.push_back(step.device);
  const DeviceId g0 = DeviceId::gpu(0), g1 = DeviceId::gpu(1);
  EXPECT_EQ(devices, (std::vector{g0, g0, g1, g1, g0, g0, g0, g0}));
}

// Device memory that is host memory, and copies that say what they are.
class FakeQueue final : public DeviceQueue {
 public:
  DeviceId device() const override { return DeviceId::gpu(0); }
  std::shared_ptr<std::byte> allocate(size_t bytes, std::string_view) override {
    allocated += bytes;
    return {new std::byte[bytes], [](std::byte* p) { delete[] p; }};
  }
  void copy_to_device(std::byte* to, std::span<const std::byte> from) override {
    std::memcpy(to, from.data(), from.size());
  }
  void copy_to_host(std::span<std::byte> to, const std::byte* from) override {
    std::memcpy(to.data(), from, to.size());
  }
  void synchronize() override { ++synchronized; }
  void start_run(std::optional<void*>) override {}
  void finish_run() override {}
  void mark_run() override {}
  void wait_for_marked() override {}
  void wait_for_runs() override {}
  void check_memory(const void*, DeviceId, std::string_view) const override {}
  void check_stream(void*) const override {}
  void copy_from(std::byte* to, std::span<const std::byte> from, const DeviceQueue&) override {
    std::memcpy(to, from.data(), from.size());
  }
  std::unique_ptr<DeviceEvent> make_event() override { return nullptr; }
  void record(DeviceEvent&) override {}
  void wait_for(const DeviceEvent&) override {}
  void start_recording() override {}
  std::unique_ptr<DeviceRecording> finish_recording() override { return nullptr; }
  bool is_recorded(void*) const override { return false; }
  std::unique_ptr<DeviceTimeline> make_timeline(size_t) override { return nullptr; }

  size_t allocated = 0;
  int synchronized = 0;
};

TEST(PlaceValues, ConstantsAreBroughtInOnePiece) {
  Placed p(R"(graph (%x: f32[n]) {
    const %w: f32[2, 3] = [1, 2, 3, 4, 5, 6]
    const %u: f32[1, 3] = [7, 8, 9]
    const %h: f32[] = 2
    %a = transpose {permutation=[1, 0]} (%w)
    %b = transpose {permutation=[1, 0]} (%u)
    %c = pointwise {function=mul} (%x, %h)
    return %a, %b, %c
  })");
  FakeQueue queue;
  upload_constants(p.plan, queue);
  EXPECT_EQ(queue.allocated, 512U);
  EXPECT_EQ(queue.synchronized, 1);
  EXPECT_EQ(reinterpret_cast<const float*>(p.value("w (on the device)").uploaded.get())[5], 6);
  EXPECT_EQ(reinterpret_cast<const float*>(p.value("u (on the device)").uploaded.get())[0], 7);
  EXPECT_EQ(p.value("h").uploaded, nullptr);
}

TEST(PlaceValues, EachDeviceHasAnArena) {
  const Placed p(R"(graph (%x: f32[n, 100]) {
    %a = transpose {permutation=[1, 0]} (%x)
    %b = transpose {permutation=[1, 0]} (%a)
    %c = pointwise {function=neg} (%b)
    %d = pointwise {function=exp} (%c)
    return %d
  })");
  const BoundPlan bound(p.plan, {{"n", 1}}, 1);
  EXPECT_EQ(bound.arena_bytes(DeviceId::gpu(0)), 512 + 400) << "two at a time, aligned to 256";
  EXPECT_EQ(bound.arena_bytes(DeviceId::host), 448 + 400) << "two at a time, aligned to 64";
}

}  // namespace
}  // namespace camshaft::place_values_test

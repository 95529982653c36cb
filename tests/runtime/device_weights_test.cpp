// Weights that come to a GPU, on one that does the work of its queues in any order that their moments allow.
#include "runtime/device_weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <list>

#include "reference/random_tensor.h"
#include "runtime/support.h"
#include "test_random.h"

namespace camshaft::device_weights_test {
namespace {

const DeviceId gpu = DeviceId::gpu(0);

// A plan of steps on a GPU, each with the constants that it reads.
Plan plan_of(const std::vector<std::vector<size_t>>& reads, const std::vector<size_t>& kilobytes) {
  Plan plan;
  for (size_t v = 0; v < kilobytes.size(); ++v) {
    PlanValue value;
    value.name = "c" + std::to_string(v);
    value.storage = Storage::constant;
    value.device = gpu;
    Tensor constant(DType::u8, {static_cast<int64_t>(kilobytes[v] * 1024)});
    std::memset(constant.mutable_data(), static_cast<int>(v + 1), constant.bytes());
    value.constant = std::make_shared<const Tensor>(std::move(constant));
    plan.values.push_back(std::move(value));
  }
  for (const std::vector<size_t>& read : reads) {
    PlanStep step;
    step.device = gpu;
    for (const size_t v : read) step.inputs.push_back(static_cast<int32_t>(v));
    plan.steps.push_back(std::move(step));
  }
  return plan;
}

// Queues that remember what is put into them.
class FakeGpu {
 public:
  struct Event final : DeviceEvent {
    int recorded = 0;  // how often so far, as the host has put it
    int passed = 0;    // as the device has come to it
  };

  class Queue final : public DeviceQueue {
   public:
    explicit Queue(FakeGpu& owner) : owner_(owner) {}
    DeviceId device() const override { return gpu; }
    std::shared_ptr<std::byte> allocate(size_t bytes, std::string_view) override {
      return {new std::byte[bytes + 1], [](std::byte* p) { delete[] p; }};
    }
    size_t available_bytes() const override { return size_t{1} << 30; }
    std::shared_ptr<std::byte> allocate_on_host(size_t bytes, std::string_view purpose) override {
      return allocate(bytes, purpose);
    }
    void copy_to_device(std::byte* to, std::span<const std::byte> from) override {
      put([=] {
        std::memcpy(to, from.data(), from.size());
        return true;
      });
    }
    void copy_to_host(std::span<std::byte>, const std::byte*) override {}
    void copy_from(std::byte*, std::span<const std::byte>, const DeviceQueue&) override {}
    void synchronize() override { owner_.run_all(); }
    std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<Event>(); }
    void record(DeviceEvent& event) override {
      auto& of = static_cast<Event&>(event);
      put([&of, number = ++of.recorded] {
        of.passed = number;
        return true;
      });
    }
    void wait_for(const DeviceEvent& event) override {
      const auto& of = static_cast<const Event&>(event);
      put([&of, number = of.recorded] { return of.passed >= number; });
    }
    bool is_recorded(void*) const override { return false; }
    void check_stream(void*) const override {}
    void start_run(std::optional<void*>) override {}
    void finish_run() override {}
    void wait_for_runs() override {}
    void check_memory(const void*, DeviceId, std::string_view) const override {}
    void start_recording() override {}
    std::unique_ptr<DeviceRecording> finish_recording() override { return nullptr; }
    std::unique_ptr<DeviceTimeline> make_timeline(size_t) override { return nullptr; }

    // What returns false waits.
    void put(std::function<bool()> work) { work_.push_back(std::move(work)); }
    bool step() {
      if (work_.empty() || !work_.front()()) return false;
      work_.pop_front();
      return true;
    }
    bool is_empty() const { return work_.empty(); }

   private:
    FakeGpu& owner_;
    std::list<std::function<bool()>> work_;
  };

  explicit FakeGpu(Random& random) : random_(random) {
    for (int i = 0; i < 2; ++i) queues_.push_back(std::make_unique<Queue>(*this));
  }
  Queue& computing() { return *queues_[0]; }
  std::unique_ptr<DeviceQueue> copying() { return std::move(queues_[1]); }
  void watch(Queue* copying) { copying_ = copying; }

  // One piece of work of either queue, if any can be done.
  bool run_some() {
    Queue* both[] = {queues_[0].get(), copying_};
    const auto first = static_cast<size_t>(random_.integer(0, 1));
    return both[first]->step() || both[1 - first]->step();
  }
  void run_all() {
    while (run_some()) {
    }
    EXPECT_TRUE(queues_[0]->is_empty() && copying_->is_empty()) << "the queues wait for each other";
  }

 private:
  Random& random_;
  std::vector<std::unique_ptr<Queue>> queues_;
  Queue* copying_ = nullptr;
};

void expect_fits(const DeviceStreamingPlan& plan, size_t all, size_t budget) {
  EXPECT_LE(plan.staying_bytes + plan.window_bytes, budget);
  EXPECT_EQ(plan.staying_bytes + plan.loads_bytes, all);
}

TEST(DeviceStreaming, EvenLayersStayEvenly) {
  std::vector<std::vector<size_t>> reads;
  for (size_t s = 0; s < 20; ++s) reads.push_back({s});
  const Plan plan = plan_of(reads, std::vector<size_t>(20, 64));
  const size_t all = device_weight_bytes(plan, gpu);
  EXPECT_EQ(all, 20u * 65536);
  const DeviceStreamingPlan half = plan_device_streaming(plan, gpu, all / 2);
  expect_fits(half, all, all / 2);
  EXPECT_EQ(half.window_bytes, 2u * 65536);
  EXPECT_EQ(half.staying_bytes, 8u * 65536);
  for (size_t s = 0; s + 5 < 20; ++s)
    EXPECT_NE(std::count(half.streams.begin() + s, half.streams.begin() + s + 5, true), 5);
  const DeviceStreamingPlan least = plan_device_streaming(plan, gpu, 0);
  EXPECT_EQ(least.staying_bytes + least.window_bytes, 2u * 65536);
}

TEST(DeviceStreaming, WhatSeveralStepsReadStays) {
  Plan plan = plan_of({{0, 1}, {2}, {0, 3}, {4}, {5}}, {4, 8, 8, 8, 8, 8});
  plan.steps[3].is_invariant = true;
  const DeviceStreamingPlan least = plan_device_streaming(plan, gpu, 0);
  EXPECT_FALSE(least.streams[0]);
  EXPECT_FALSE(least.streams[4]);  // read once for a set of shapes, before all others
  EXPECT_TRUE(least.streams[1] && least.streams[2] && least.streams[3] && least.streams[5]);
}

TEST(DeviceStreaming, EveryStepFindsItsWeightsWhateverTheOrderOfTheDevice) {
  Random random = test_random();
  const auto below = [&](size_t n) { return static_cast<size_t>(random.integer(0, static_cast<int64_t>(n) - 1)); };
  for (int trial = 0; trial < 100; ++trial) {
    const size_t steps = 1 + below(12), values = 1 + below(16);
    std::vector<std::vector<size_t>> reads(steps);
    std::vector<size_t> kilobytes(values);
    for (size_t v = 0; v < values; ++v) {
      kilobytes[v] = 1 + below(9);
      reads[below(steps)].push_back(v);
      if (below(8) == 0) reads[below(steps)].push_back(v);
    }
    const Plan plan = plan_of(reads, kilobytes);
    const size_t all = device_weight_bytes(plan, gpu);
    const DeviceStreamingPlan least = plan_device_streaming(plan, gpu, 0);
    const size_t lowest = least.staying_bytes + least.window_bytes;
    const size_t budget = lowest + below(all - std::min(all, lowest) + 1);
    DeviceStreamingPlan chosen = plan_device_streaming(plan, gpu, budget);
    expect_fits(chosen, all, budget);
    FakeGpu device(random);
    const auto weights = std::make_shared<const DeviceWeights>(plan, std::move(chosen), device.computing());
    std::unique_ptr<DeviceQueue> copying = device.copying();
    device.watch(static_cast<FakeGpu::Queue*>(copying.get()));
    int checked = 0, expected = 0;
    {
      DeviceWeightStream stream(weights, device.computing(), std::move(copying));
      for (int run = 0; run < 4; ++run) {
        std::vector<bool> left_out(steps, false);
        for (size_t s = 0; s < steps; ++s) left_out[s] = below(6) == 0;
        stream.start(left_out);
        const size_t fails_at = below(3) == 0 ? below(steps) : steps;  // a run that ends there
        for (size_t s = 0; s < fails_at; ++s) {
          if (left_out[s]) continue;
          stream.before(s);
          for (const int32_t id : plan.steps[s].inputs) {
            const std::byte* const place = stream.place(id);
            if (!place) continue;
            ++expected;
            device.computing().put([&plan, &checked, place, id] {
              const Tensor& constant = *plan.values[static_cast<size_t>(id)].constant;
              checked += std::memcmp(place, constant.data(), constant.bytes()) == 0 ? 1 : 0;
              return true;
            });
          }
          stream.after(s);
          for (size_t i = below(8); i > 0; --i) device.run_some();
        }
      }
    }
    EXPECT_EQ(checked, expected);
  }
}

// An engine on the device under test, where that is a GPU.
TEST(DeviceStreaming, ResultsAreTheSameWithAnyBudget) {
  if (test_backend()->device().id.is_host()) GTEST_SKIP() << "the device under test is no GPU";
  std::string text = "graph \"deep\" (%x: f32[n, 48]) {\n";
  for (int i = 0; i < 8; ++i) text += "  const %w" + std::to_string(i) + ": f32[48, 48] = 0.02\n";
  std::string value = "x";
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    text += "  %m" + n + " = matmul (%" + value + ", %w" + n + ")\n  %s" + n + " = softmax {axis=1} (%m" + n + ")\n";
    value = "s" + n;
  }
  Random random = test_random();
  Graph graph = parse_graph(text + "  return \"y\" = %" + value + "\n}", operators());
  for (Value& v : graph.values)
    if (v.constant) v.constant = std::make_shared<const Tensor>(random_tensor(random, DType::f32, v.constant->dims()));
  const Engine engine = compile_graph(graph, test_backend());
  const std::vector<Tensor> inputs = {random_tensor(random, DType::f32, {3, 48})};
  const Tensor expected = run_engine(engine, inputs)[0];
  Context context = engine.create_context();
  set_inputs(context, engine, inputs);
  const WeightStreaming whole = engine.weight_streaming();
  EXPECT_GE(whole.weight_bytes, 8 * 48 * 48 * 4);
  for (const std::string& budget : {std::to_string(whole.least_budget), std::string("50%"), std::string("75%"),
                                    std::string("none"), std::string("auto"), std::string("40%")}) {
    engine.set_weight_budget(budget);
    for (int run = 0; run < 3; ++run) {
      context.run();
      EXPECT_EQ(output_of(context, "y"), expected) << budget;
    }
    EXPECT_EQ(run_engine(engine, inputs)[0], expected);
  }
  const WeightStreaming now = engine.weight_streaming();
  EXPECT_GT(now.loads_bytes, 0);
  EXPECT_LE(now.staying_bytes + now.window_bytes, now.budget);
  try {
    engine.set_weight_budget(std::to_string(whole.least_budget - 1));
    ADD_FAILURE() << "it fits";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(whole.least_budget)), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace camshaft::device_weights_test

// Contests on a device that has a clock of its own, which moves only by what is done there.
#include "compile/tune/device_contest.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "compile/tune/contest.h"
#include "compile/tune/model_bytes.h"
#include "ir/ops/operators.h"
#include "ir/text.h"

namespace camshaft::device_contest_test {
namespace {

class FakeQueue final : public DeviceQueue {
 public:
  struct Recorded final : DeviceRecording {
    Recorded(FakeQueue& queue, double seconds) : queue(queue), seconds(seconds) {}
    void replay() override { queue.spend(seconds); }
    FakeQueue& queue;
    double seconds;
  };

  DeviceId device() const override { return DeviceId::gpu(0); }
  std::shared_ptr<std::byte> allocate(size_t bytes, std::string_view) override {
    return std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>());
  }
  void copy_to_device(std::byte* to, std::span<const std::byte> from) override {
    std::memcpy(to, from.data(), from.size());
  }
  void copy_to_host(std::span<std::byte> to, const std::byte* from) override {
    std::memcpy(to.data(), from, to.size());
  }
  void synchronize() override {}
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
  bool is_recorded(void*) const override { return false; }
  std::unique_ptr<DeviceTimeline> make_timeline(size_t) override { return nullptr; }
  void start_recording() override { recorded_ = 0; }
  std::unique_ptr<DeviceRecording> finish_recording() override {
    auto recording = std::make_unique<Recorded>(*this, recorded_);
    recorded_ = -1;
    return recording;
  }

  void spend(double seconds) { (recorded_ >= 0 ? recorded_ : clock) += seconds; }

  double clock = 0;

 private:
  double recorded_ = -1;  // while recording
};

class FakeStopwatch final : public DeviceStopwatch {
 public:
  FakeStopwatch(FakeQueue& queue, size_t cache_bytes, size_t& touched)
      : queue_(queue), cache_bytes_(cache_bytes), touched_(touched) {}
  void start() override { start_ = queue_.clock; }
  void stop() override { stop_ = queue_.clock; }
  double seconds() override { return stop_ - start_; }
  void touch(std::byte*, size_t bytes, bool) override {
    touched_ += bytes;
    queue_.spend(1e-12 * static_cast<double>(bytes));
  }
  size_t cache_bytes() const override { return cache_bytes_; }

 private:
  FakeQueue& queue_;
  size_t cache_bytes_, &touched_;
  double start_ = 0, stop_ = 0;
};

/// Kernels of the device that take as many microseconds as their tactic's name says; "refuses" cannot run.
class FakeDevice final : public Backend {
 public:
  class Kernel final : public camshaft::Kernel {
   public:
    class Launch final : public camshaft::Launch {
     public:
      explicit Launch(double seconds) : seconds_(seconds) {}
      void run(const LaunchArguments& arguments) override {
        if (seconds_ < 0) throw Error(ErrorCode::unsupported, "it refuses");
        EXPECT_NE(arguments.inputs[0], nullptr);
        static_cast<FakeQueue*>(arguments.queue)->spend(seconds_);
      }

     private:
      double seconds_;
    };
    explicit Kernel(double seconds) : seconds_(seconds) {}
    Place place() const override { return Place::device; }
    std::unique_ptr<camshaft::Launch> prepare(const KernelShapes&) const override {
      return std::make_unique<Launch>(seconds_);
    }

   private:
    double seconds_;
  };

  explicit FakeDevice(size_t cache_bytes, bool has_clock = true) : cache_bytes_(cache_bytes), has_clock_(has_clock) {}
  const DeviceInfo& device() const override { return info_; }
  std::unique_ptr<DeviceQueue> make_queue() const override { return std::make_unique<FakeQueue>(); }
  std::unique_ptr<DeviceStopwatch> make_stopwatch(DeviceQueue& queue) const override {
    if (!has_clock_) return nullptr;
    return std::make_unique<FakeStopwatch>(static_cast<FakeQueue&>(queue), cache_bytes_, touched);
  }
  BackendPasses passes(DType, ops::Rounding) const override { return {}; }
  std::vector<Tactic> tactics(const RegionView&) const override { return {}; }
  std::shared_ptr<const camshaft::Kernel> compile(const RegionView&, const Tactic& tactic,
                                                  PackedConstants&) const override {
    return std::make_shared<Kernel>(tactic.name == "refuses" ? -1 : 1e-6 * std::stod(tactic.name));
  }
  bool can_unpack(const std::string&) const override { return false; }
  Tensor unpack(const PackedConstant&, DType, const Dims&) const override { return {}; }

  mutable size_t touched = 0;

 private:
  size_t cache_bytes_;
  bool has_clock_;
  DeviceInfo info_{"fake", "a fake", "none", 2, 0, {}, {}, "test", DeviceId::gpu(0)};
};

constexpr const char* model = R"(graph (%x: f16[64, 64]) {
  const %w: f16[64, 64] = 0.5
  %y = matmul (%x, %w)
  return %y
})";

struct Measured {
  Graph graph = parse_graph(model, operators());
  ThreadPool pool{1};

  std::vector<int64_t> times(const FakeDevice& device, const std::vector<const char*>& names) {
    std::vector<Tactic> tactics;
    for (const char* name : names) tactics.push_back({.name = name, .place = Place::device});
    std::vector<const Tactic*> candidates;
    for (const Tactic& tactic : tactics) candidates.push_back(&tactic);
    Contest contest(device, pool, model_bytes(graph, {}), {});
    return contest.measure({graph, graph.nodes[0], {}}, candidates);
  }
};

TEST(DeviceContest, KernelsAreTimedByTheDevicesClock) {
  const FakeDevice device(1 << 20);
  // Who is far behind leaves early, with the time that it had.
  EXPECT_EQ(Measured().times(device, {"3", "2.5", "900", "refuses"}), (std::vector<int64_t>{3000, 2500, 900000, -1}));
}

TEST(DeviceContest, WhatLeavesTheCacheColdDoesNotCount) {
  const FakeDevice roomy(1 << 20), small(4096);
  Measured().times(roomy, {"3"});
  const size_t warming_up = roomy.touched;
  EXPECT_EQ(Measured().times(small, {"3", "2.5"}), (std::vector<int64_t>{3000, 2500}));
  EXPECT_GT(small.touched, 0u);
  EXPECT_GT(warming_up, 0u);
}

TEST(DeviceContest, ADeviceWithoutAClockMeasuresNothing) {
  EXPECT_TRUE(Measured().times(FakeDevice(1 << 20, false), {"3", "2"}).empty());
}

TEST(ModelBytes, WeightsAndTheWidestLayer) {
  const Measured m;
  const ModelBytes bytes = model_bytes(m.graph, {});
  EXPECT_EQ(bytes.weights, 64u * 64 * 2);
  EXPECT_EQ(bytes.activations, 2u * 64 * 64 * 2);
}

}  // namespace
}  // namespace camshaft::device_contest_test

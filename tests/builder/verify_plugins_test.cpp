// Plugins by themselves: what never returns, and bodies for a device.
#include "builder/verify_plugins.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "ir/ops/plugin.h"
#include "ir/plugin_detour.h"
#include "reference/plugin_guards.h"

namespace camshaft::verify_plugins_test {
namespace {

struct Behaviour {
  std::function<void(const PluginCall&)> run;
  std::function<void(const PluginCall&)> run_on_device = {};
};

class Instance final : public PluginInstance {
 public:
  explicit Instance(const Behaviour& behaviour) : behaviour_(behaviour) {}
  std::vector<TensorType> infer(const InferContext& context) const override { return {context.type(0)}; }
  bool has_reference() const override { return true; }
  bool has_device() const override { return behaviour_.run_on_device != nullptr; }
  size_t tactics(const PluginCall& call) const override { return call.device ? 2 : 1; }
  void run(const PluginCall& call) const override { behaviour_.run(call); }
  void run_on_device(const PluginCall& call) const override { behaviour_.run_on_device(call); }
  void run_reference(const PluginCall& call) const override { copy(call); }
  static void copy(const PluginCall& call) {
    std::memcpy(call.outputs[0].data, call.inputs[0].data, 4 * static_cast<size_t>(element_count(call.inputs[0].dims)));
  }

 private:
  const Behaviour& behaviour_;
};

class Operator final : public PluginOperator {
 public:
  Operator(const std::string& name_, Behaviour behaviour) : behaviour_(std::move(behaviour)) {
    domain = "verify_plugins_test";
    name = name_;
    version = "1";
    file = "test.so";
    hash = "0";
  }
  std::shared_ptr<const PluginInstance> create(const PluginNode&) const override {
    return std::make_shared<Instance>(behaviour_);
  }

 private:
  Behaviour behaviour_;
};

Graph graph_of(const std::string& name, Behaviour behaviour) {
  const auto plugin = std::make_shared<Operator>(name, std::move(behaviour));
  add_plugin(plugin);
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {Dim::symbol("n"), 3}});
  graph.outputs = graph.add_node(ops::make_plugin(*plugin, {}), {x}, {"y"});
  return graph;
}

/// The error of verifying it.
std::string failure(const Graph& graph, const PluginVerifyOptions& options, ErrorCode code) {
  try {
    verify_plugins(graph, options, 2);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "no error";
}

PluginVerifyOptions options_of(std::chrono::milliseconds limit) {
  PluginVerifyOptions options;
  options.limit = limit;
  return options;
}

TEST(VerifyPlugins, OneThatNeverReturnsIsNamed) {
  static std::atomic<bool> may_end = false;
  static std::atomic<int> ended = 0;
  const Graph graph = graph_of("Endless", {[](const PluginCall& call) {
                                 if (call.inputs[0].dims[0] == 7)
                                   while (!may_end) std::this_thread::yield();
                                 Instance::copy(call);
                                 ++ended;
                               }});
  EXPECT_EQ(failure(graph, options_of(std::chrono::milliseconds(50)), ErrorCode::verification_failed),
            "operator 'verify_plugins_test::Endless' of the plugin test.so: tactic 0 on [7, 3]: the plugin "
            "verify_plugins_test::Endless (test.so) has not returned within 0.05 s");
  const int before = ended;
  may_end = true;  // what is left behind has its own operands
  while (ended == before) std::this_thread::yield();
}

TEST(VerifyPlugins, OneThatIsCancelledIsNotWaitedFor) {
  static std::atomic<bool> may_end = false;
  const Graph graph = graph_of("Waits", {[](const PluginCall&) {
                                 while (!may_end) std::this_thread::yield();
                               }});
  PluginVerifyOptions options = options_of(std::chrono::hours(1));
  options.cancellation.cancel();
  EXPECT_NE(failure(graph, options, ErrorCode::cancelled), "no error");
  may_end = true;
}

TEST(VerifyPlugins, BodiesForADeviceRunThereOnEachTactic) {
  static std::atomic<int> runs = 0;
  PluginDetour detour;
  detour.run = [](const PluginInstance& instance, const std::string&, const PluginCall& call, std::byte) {
    ++runs;
    instance.run_on_device(call);
  };
  set_plugin_detour(DeviceId::gpu(1), detour);
  PluginVerifyOptions options;
  options.device = DeviceId::gpu(1);
  PluginDetour of_another = detour;
  of_another.run = [](const PluginInstance&, const std::string&, const PluginCall&, std::byte) {
    FAIL() << "not here";
  };
  set_plugin_detour(DeviceId::gpu(0), of_another);
  const Graph good = graph_of("OnDevice", {Instance::copy, Instance::copy});
  const std::vector<std::string> lines = verify_plugins(good, options, 1);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("1 tactic and 2 tactics on the GPU on 13 sets of shapes"), std::string::npos) << lines[0];
  EXPECT_EQ(runs, 2 * 13 * 2);
  const auto skip = [](const PluginCall& call) {
    if (call.tactic == 0 || call.inputs[0].dims[0] != 9) Instance::copy(call);
  };
  EXPECT_NE(failure(graph_of("Skips", {Instance::copy, skip}), options, ErrorCode::verification_failed)
                .find("Skips is wrong: output 0 of tactic 1 on the GPU on [9, 3]: it differs from run to run"),
            std::string::npos);
  const auto fails = [](const PluginCall&) { throw Error(ErrorCode::invalid_argument, "it does not compile"); };
  EXPECT_EQ(failure(graph_of("Fails", {Instance::copy, fails}), options, ErrorCode::invalid_argument),
            "it does not compile");
  const auto violates = [](const PluginCall&) { throw PluginViolation("it wrote to its input 0"); };
  EXPECT_EQ(failure(graph_of("Violates", {Instance::copy, violates}), options, ErrorCode::verification_failed),
            "operator 'verify_plugins_test::Violates' of the plugin test.so: tactic 0 on the GPU on [4, 3]: it wrote "
            "to its input 0");
  options.device = DeviceId::host;
  verify_plugins(graph_of("OnHost", {Instance::copy, fails}), options, 1);
}

}  // namespace
}  // namespace camshaft::verify_plugins_test

// Engines on two GPUs of one process, and what passes between GPUs. Without two GPUs the emulated ones run these:
// CAMSHAFT_EMULATED_DEVICES=2 scripts/emulate_gpu.sh.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/memory.h"
#include "backends/cuda/driver/stream.h"
#include "backends/cuda/libraries/libraries.h"
#include "base/temporary_folder.h"
#include "base/workers.h"
#include "compile/plan/place_values.h"
#include "reference/random_tensor.h"
#include "runtime/executor.h"
#include "runtime/support.h"

namespace camshaft::several_gpus_test {
namespace {

const DeviceId first = DeviceId::gpu(0), second = DeviceId::gpu(1);

class SeveralGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (test_backend()->device().kind != "cuda" || cuda::list_devices(cuda::driver_library().functions).size() < 2)
      GTEST_SKIP() << "needs CAMSHAFT_TEST_DEVICE=cuda and two GPUs, or CAMSHAFT_EMULATED_DEVICES=2 "
                      "scripts/emulate_gpu.sh";
  }

  static Engine engine_on(DeviceId device, std::string_view model = small_model) {
    return compile_graph(parse_graph(model, operators()), find_backend(to_string(device)));
  }

  Random random = test_random();
};

template <class Call>
void expect_message(std::string_view text, Call&& call, ErrorCode code = ErrorCode::invalid_argument) {
  try {
    call();
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string_view(e.what()).find(text), std::string_view::npos) << e.what();
  }
}

std::string bytes_of(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

TEST_F(SeveralGpus, AnEngineOnEachAtTheSameTime) {
  const Engine engines[] = {engine_on(first), engine_on(second)};
  EXPECT_EQ(engines[0].device(), first);
  EXPECT_EQ(engines[1].device(), second);
  const Tensor x = random_tensor(random, DType::f32, {2, 6, 5, 4});
  const Tensor want = run_engine(compile_graph(parse_graph(small_model, operators()), find_backend("cpu")), {x})[0];
  std::vector<std::thread> threads;
  for (const Engine& engine : engines)
    threads.emplace_back([&] {
      for (int round = 0; round < 3; ++round) {
        const std::vector<double> got = run_engine(engine, {x}, 1)[0].to_doubles(), expected = want.to_doubles();
        ASSERT_EQ(got.size(), expected.size());
        for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4 * std::max(1.0, expected[i]));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SeveralGpus, OnesThatAreNotThereAreRefusedWithAListOfThoseThatAre) {
  const auto gpus = cuda::list_devices(cuda::driver_library().functions);
  expect_message(
      "there is no GPU 99; this machine has GPU 0, " + gpus[0].name + "; GPU 1, " + gpus[1].name,
      [] { find_backend("cuda:99"); }, ErrorCode::unsupported);
}

// A file says what kind of device an engine is for, and not which: equal GPUs share files, locks and measurements.
TEST_F(SeveralGpus, FilesNameNoGpuAndAreLoadedForAny) {
  const TemporaryFolder folder;
  const std::string path = folder.file("0.engine"), other = folder.file("1.engine");
  engine_on(first).save(path);
  engine_on(second).save(other);
  EXPECT_EQ(bytes_of(path), bytes_of(other));
  EXPECT_EQ(Engine::load(path, {.device = "cuda:1"}).device(), second);
  EXPECT_EQ(Engine::load(other, {.device = "cuda"}).device(), first);
  expect_message("this engine was built for cuda, and cannot run on cpu",
                 [&] { Engine::load(path, {.device = "cpu"}); });
  expect_message("'gpu' is no device", [&] { Engine::load(path, {.device = "gpu"}); });
  expect_message(
      "there is no GPU 99", [&] { Engine::load(path, {.device = "cuda:99"}); }, ErrorCode::unsupported);
}

TEST_F(SeveralGpus, TheCurrentOneIsTakenUnlessOneIsNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.engine");
  engine_on(first).save(path);
  EXPECT_EQ(Engine::load(path).device(), first);
  const cuda::Device gpu(cuda::driver_library().functions, 1);
  const cuda::Current current(gpu);
  EXPECT_EQ(Engine::load(path).device(), second);
  EXPECT_EQ(Engine::load(path, {.device = "cuda:0"}).device(), first);
  // Runs on another GPU leave the caller's as it was.
  run_engine(Engine::load(path, {.device = "cuda:0"}), {random_tensor(random, DType::f32, {1, 6, 5, 4})}, 1);
  EXPECT_EQ(cuda::current_ordinal(cuda::driver_library().functions), 1);
}

TEST_F(SeveralGpus, MemoryAndStreamsOfAnotherGpuAreRefused) {
  const Engine engine = engine_on(second);
  Context context = engine.create_context({1});
  const cuda::Device gpus[] = {{cuda::driver_library().functions, 0}, {cuda::driver_library().functions, 1}};
  const cuda::DeviceBuffer on_first(gpus[0], 1024, "a test"), on_second(gpus[1], 1024, "a test");
  context.set_input_shape("x", {1, 6, 5, 4});
  expect_message("input 'x' is said to be on GPU 0; this engine runs on GPU 1",
                 [&] { context.bind_input("x", on_first.data(), 480, first); });
  expect_message("which is memory of GPU 0; this engine runs on GPU 1",
                 [&] { context.bind_input("x", on_first.data(), 480, second); });
  expect_message("which is memory of GPU 0; this engine runs on GPU 1",
                 [&] { context.bind_output("logits", on_first.data(), 1024, second); });
  expect_message("give it as of device 2 with ordinal 1", [&] { context.bind_input("x", on_second.data(), 480); });
  context.bind_input("x", on_second.data(), 480, second);
  expect_message("output 'logits' is said to be on GPU 0", [&] { context.bind_output("logits", nullptr, 0, first); });
  const cuda::Stream stream(gpus[0]), right(gpus[1]);
  expect_message("is not one of GPU 1, which this engine runs on", [&] { context.enqueue(stream.handle()); });
  context.enqueue(right.handle());
  context.synchronize();
}

// One GPU computes what the other one reads, and none waits for the host.
TEST_F(SeveralGpus, EventsOrderCopiesBetweenQueues) {
  const auto from = find_backend("cuda:0")->make_queue(), to = find_backend("cuda:1")->make_queue();
  EXPECT_EQ(from->device(), first);
  EXPECT_EQ(to->device(), second);
  const auto event = from->make_event(), copied = to->make_event();
  to->wait_for(*event);  // which was never recorded
  const auto a = from->allocate(1024, "a test"), b = to->allocate(1024, "a test");
  std::vector<std::byte> sent(1024, std::byte{7}), later(1024, std::byte{8}), received(1024);
  from->copy_to_device(a.get(), sent);
  from->record(*event);
  to->wait_for(*event);
  to->copy_from(b.get(), {a.get(), 1024}, *from);
  to->record(*copied);
  from->wait_for(*copied);
  from->copy_to_device(a.get(), later);
  from->synchronize();
  to->copy_to_host(received, b.get());
  to->synchronize();
  EXPECT_EQ(received, sent);
}

/// Gives its input as it is: by a copy in the device's own memory.
class Same final : public Kernel {
 public:
  class Copy final : public Launch {
   public:
    explicit Copy(size_t bytes) : bytes_(bytes) {}
    void run(const LaunchArguments& arguments) override {
      arguments.queue->copy_from(arguments.outputs[0], {arguments.inputs[0], bytes_}, *arguments.queue);
    }

   private:
    size_t bytes_;
  };
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<Copy>(byte_size(shapes.inputs[0].dtype, element_count(shapes.inputs[0].dims)));
  }
};

// a and b on the first GPU, c of b on the second one, and d and e on the first one, in the memory of a and b.
Plan plan_over_two() {
  Plan plan;
  const TensorType type{DType::f32, {256}};
  const auto add = [&](const char* name, Storage storage, int32_t index) {
    PlanValue value;
    value.name = name;
    value.type = type;
    value.storage = storage;
    value.index = index;
    plan.values.push_back(std::move(value));
    return static_cast<int32_t>(plan.values.size()) - 1;
  };
  const int32_t x = add("x", Storage::input, 0), z = add("z", Storage::input, 1);
  const int32_t a = add("a", Storage::arena, -1), b = add("b", Storage::arena, -1), c = add("c", Storage::output, 0);
  const int32_t d = add("d", Storage::arena, -1), e = add("e", Storage::output, 1);
  plan.inputs = {x, z};
  plan.input_names = {"x", "z"};
  plan.outputs = {c, e};
  plan.output_names = {"c", "e"};
  const auto step = [&](int32_t in, int32_t out, DeviceId device) {
    PlanStep made;
    made.name = plan.values[static_cast<size_t>(out)].name;
    made.op = made.tactic = "same";
    made.kernel = std::make_shared<Same>();
    made.device = device;
    made.inputs = {in};
    made.outputs = {out};
    plan.steps.push_back(std::move(made));
  };
  step(x, a, first);
  step(a, b, first);
  step(b, c, second);
  step(z, d, first);
  step(d, e, first);
  place_values(plan);
  for (size_t s = 0; s < plan.steps.size(); ++s)
    for (const auto* operands : {&plan.steps[s].inputs, &plan.steps[s].outputs})
      for (const int32_t id : *operands) {
        PlanValue& value = plan.values[static_cast<size_t>(id)];
        if (value.first_step < 0) value.first_step = static_cast<int32_t>(s);
        value.last_step = static_cast<int32_t>(s);
      }
  return plan;
}

TEST_F(SeveralGpus, APlanOverTwo) {
  const Plan plan = plan_over_two();
  EXPECT_EQ(plan.devices(), (std::vector{DeviceId::host, first, second}));
  const BoundPlan bound(plan, {}, 1);
  EXPECT_EQ(bound.arena_bytes(first), 3 * 1024) << "inputs come first: both are alive beside what one becomes";
  EXPECT_EQ(bound.arena_bytes(second), 2 * 1024);
  std::vector<std::unique_ptr<DeviceQueue>> queues;
  for (const DeviceId device : {first, second}) queues.push_back(find_backend(to_string(device))->make_queue());
  Executor executor(plan, Workers::of_process(), 1, std::move(queues), nullptr);
  executor.reserve(bound);
  EXPECT_EQ(executor.memory_bytes(), 5 * 1024U);
  KeptValues kept = executor.make_kept_values(bound);
  Recordings recordings;
  const cuda::Device gpu(cuda::driver_library().functions, 0);
  const cuda::Stream stream(gpu);
  std::vector<float> x(256), z(256);
  for (int round = 0; round < 4; ++round) {
    std::iota(x.begin(), x.end(), static_cast<float>(round));
    std::iota(z.begin(), z.end(), static_cast<float>(-1000 * round));
    const auto buffer = [](std::vector<float>& values) {
      return CallerBuffer{reinterpret_cast<std::byte*>(values.data()), 1024, DeviceId::host};
    };
    const CallerMemory memory{{buffer(x), buffer(z)}, {{}, {}}};
    if (round < 3) {
      executor.run(bound, kept, recordings, memory);
    } else {  // in a stream of the caller's, who waits for that alone
      executor.run(bound, kept, recordings, memory, {stream.handle(), false});
      stream.synchronize();
    }
    for (const auto& [output, want] : {std::pair{size_t{0}, &x}, {size_t{1}, &z}}) {
      const auto* got = static_cast<const float*>(executor.output(output).data);
      EXPECT_EQ(std::vector<float>(got, got + 256), *want) << "output " << output << ", round " << round;
    }
  }
  const auto& recorded = recordings.of(plan, bound, std::vector<bool>(plan.steps.size()));
  ASSERT_EQ(recorded.size(), 2U) << "a and b, d and e: a copy lies between steps of two GPUs";
  for (const RecordedSteps& steps : recorded) EXPECT_EQ(steps.end - steps.begin, 2U);
}

TEST_F(SeveralGpus, ARunOnTwoCannotBeRecorded) {
  const Plan plan = plan_over_two();
  const BoundPlan bound(plan, {}, 1);
  std::vector<std::unique_ptr<DeviceQueue>> queues;
  for (const DeviceId device : {first, second}) queues.push_back(find_backend(to_string(device))->make_queue());
  Executor executor(plan, Workers::of_process(), 1, std::move(queues), nullptr);
  executor.reserve(bound);
  KeptValues kept = executor.make_kept_values(bound);
  Recordings recordings;
  const cuda::Device gpu(cuda::driver_library().functions, 0);
  const cuda::Stream stream(gpu);
  const cuda::api::Driver& driver = gpu.driver();
  {
    const cuda::Current current(gpu);
    ASSERT_EQ(driver.cuStreamBeginCapture_v2(stream.handle(), cuda::api::capture_of_this_thread), cuda::api::success);
  }
  expect_message("a run on several GPUs cannot be recorded into a CUDA graph", [&] {
    executor.run(bound, kept, recordings, {{{}, {}}, {{}, {}}}, {stream.handle(), false});
  });
  const cuda::Current current(gpu);
  cuda::api::Handle graph = nullptr;
  EXPECT_EQ(driver.cuStreamEndCapture(stream.handle(), &graph), cuda::api::success);
  driver.cuGraphDestroy(graph);
}

}  // namespace
}  // namespace camshaft::several_gpus_test

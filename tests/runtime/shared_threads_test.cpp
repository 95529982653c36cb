// Contexts that share threads and memory, and contexts in forked children.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/expect_in_child.h"
#include "base/temporary_folder.h"
#include "base/thread_pool.h"
#include "base/workers.h"
#include "reference/random_tensor.h"
#include "runtime/support.h"

namespace camshaft::shared_threads_test {
namespace {

// Products, convolutions and reductions with enough work for several threads.
constexpr std::string_view wide_model = R"(graph "wide" (%x: f32[1, 14, 14, 64], %t: f32[3, 700], %m: f32[700, 96]) {
  const %w: f32[64, 64, 3, 3] = 0.01
  const %zero: f32[] = 0
  %c = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], channels_last=true} (%x, %w)
  %r = pointwise {function=max} (%c, %zero)
  %s = softmax {axis=3} (%r)
  %p = matmul (%t, %m)
  %top = arg_reduce {axis=1} (%p)
  return "s" = %s, "p" = %p, "top" = %top
})";

std::vector<Tensor> wide_inputs() {
  Random random = test_random();
  return {random_tensor(random, DType::f32, {1, 14, 14, 64}), random_tensor(random, DType::f32, {3, 700}),
          random_tensor(random, DType::f32, {700, 96})};
}

bool gives(Context& context, const Engine& engine, const std::vector<Tensor>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const TensorView actual = context.output(engine.outputs()[i].name);
    if (actual.bytes != expected[i].bytes() || std::memcmp(actual.data, expected[i].data(), actual.bytes) != 0)
      return false;
  }
  return true;
}

TEST(SharedThreads, results_do_not_depend_on_how_many_a_run_gets) {
  const Engine engine = engine_from(wide_model);
  const std::vector<Tensor> inputs = wide_inputs(), expected = run_engine(engine, inputs, 1);
  const auto workers = make_workers(8);
  Context context = engine.create_context({.threads = 8, .workers = workers});
  set_inputs(context, engine, inputs);
  ThreadPool others[7] = {{workers, 8}, {workers, 8}, {workers, 8}, {workers, 8},
                          {workers, 8}, {workers, 8}, {workers, 8}};
  std::optional<ThreadPool::Session> sessions[7];
  for (int taken = 0; taken <= 7; ++taken) {
    if (taken > 0) sessions[taken - 1].emplace(others[taken - 1]);
    for (int i = 0; i < taken; ++i) others[i].adapt();
    context.run();
    EXPECT_TRUE(gives(context, engine, expected)) << "beside " << taken << " others";
  }
}

TEST(SharedThreads, many_contexts_run_at_once) {
  const Engine engine = engine_from(wide_model);
  const std::vector<Tensor> inputs = wide_inputs(), expected = run_engine(engine, inputs, 1);
  const auto workers = make_workers(3);
  std::vector<std::thread> callers;
  std::atomic<int> good{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      Context context = engine.create_context({.workers = workers, .shares_memory = true});
      set_inputs(context, engine, inputs);
      for (int round = 0; round < 20; ++round) {
        context.run();
        good += gives(context, engine, expected);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(good.load(), 4 * 20);
}

size_t threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

// Else a measurement with more threads than cores would be one of the cores, under a wrong name.
TEST(SharedThreads, more_than_cores_are_a_contexts_own) {
  const Engine engine = engine_from(wide_model);
  const std::vector<Tensor> inputs = wide_inputs(), expected = run_engine(engine, inputs, 1);
  const int shared = Workers::of_process()->limit();
  const Context of_process = engine.create_context();  // starts all workers of the process
  const size_t before = threads_of_process();
  Context equal = engine.create_context({.threads = shared});
  EXPECT_EQ(threads_of_process(), before);
  Context more = engine.create_context({.threads = shared + 3});
  EXPECT_EQ(threads_of_process(), before + static_cast<size_t>(shared) + 2);
  set_inputs(more, engine, inputs);
  more.run();
  EXPECT_TRUE(gives(more, engine, expected));
}

// Every caller computes, whatever the limit; none waits for another.
TEST(SharedThreads, callers_run_however_many_they_are) {
  const Engine engine = engine_from(wide_model);
  const std::vector<Tensor> inputs = wide_inputs();
  const auto workers = make_workers(1);
  std::barrier all_are_running(3);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      Context context = engine.create_context({.workers = workers});
      set_inputs(context, engine, inputs);
      context.set_tap("p", [&](const TensorView&) { all_are_running.arrive_and_wait(); });
      context.run();
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(SharedThreads, there_cannot_be_less_than_none) {
  try {
    make_workers(-1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  }
}

TEST(SharedMemory, is_a_contexts_own_during_a_run_alone) {
  const Engine engine = engine_from(wide_model);
  if (engine.device().is_gpu()) GTEST_SKIP() << "a GPU may still read the host's arena when a run has returned";
  const std::vector<Tensor> inputs = wide_inputs(), expected = run_engine(engine, inputs, 1);
  Context own = engine.create_context({.threads = 1});
  Context first = engine.create_context({.threads = 1, .shares_memory = true});
  Context second = engine.create_context({.threads = 1, .shares_memory = true});
  for (Context* context : {&own, &first, &second}) set_inputs(*context, engine, inputs);
  own.run();
  size_t during = 0;
  const void* memory[2] = {};
  for (int round = 0; round < 2; ++round) {
    int c = 0;
    for (Context* context : {&first, &second}) {
      context->set_tap("c", [&](const TensorView& value) {
        during = context->memory_bytes();
        memory[c] = value.data;
      });
      context->run();
      EXPECT_TRUE(gives(*context, engine, expected));
      EXPECT_LT(context->memory_bytes(), during);
      ++c;
    }
    EXPECT_EQ(memory[0], memory[1]);  // one arena for both
  }
  EXPECT_EQ(during, own.memory_bytes());
}

// ---- forks

class ForkedContext : public testing::Test {
 protected:
  bool run_again() {
    context_.run();
    return gives(context_, engine_, expected_);
  }
  bool run_async() {
    std::mutex mutex;
    std::condition_variable wake;
    bool done = false, failed = false;
    context_.run_async([&](std::exception_ptr failure) {
      const std::lock_guard lock(mutex);
      done = true;
      failed = failure != nullptr;
      wake.notify_one();
    });
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return done; });
    return !failed && gives(context_, engine_, expected_);
  }
  void SetUp() override { set_inputs(context_, engine_, inputs_); }

  const Engine engine_ = engine_from(wide_model);
  const std::vector<Tensor> inputs_ = wide_inputs(), expected_ = run_engine(engine_, inputs_, 1);
  Context context_ = engine_.create_context({.threads = 2, .workers = make_workers(2)});
};

TEST_F(ForkedContext, runs_in_the_child_and_in_its_child) {
  if (engine_.device().is_gpu()) GTEST_SKIP() << "CUDA does not work in a forked child";
  EXPECT_TRUE(run_again());
  expect_in_child([&] {
    if (!run_again() || !run_again()) return false;
    expect_in_child([&] { return run_again(); });
    return !HasFailure() && run_again();
  });
  EXPECT_TRUE(run_again());
}

TEST_F(ForkedContext, on_a_gpu_says_why_it_does_not_run) {
  if (engine_.device().is_host()) GTEST_SKIP() << "the engine is for the CPU";
  EXPECT_TRUE(run_again());
  const TemporaryFolder folder;
  const std::string file = folder.file("e.engine");
  engine_.save(file);
  const auto is_refused = [](const auto& call) {
    try {
      call();
      return false;
    } catch (const Error& error) {
      return std::string(error.what()).find("was forked by one that uses a GPU") != std::string::npos;
    }
  };
  expect_in_child([&] { return is_refused([&] { context_.run(); }); });
  expect_in_child([&] { return is_refused([&] { engine_.create_context(); }); });
  expect_in_child([&] { return is_refused([&] { Engine::load(file); }); });
  expect_in_child([&] { return is_refused([&] { find_backend(to_string(engine_.device())); }); });
  expect_in_child([&] { return is_refused([&] { set_inputs(context_, engine_, inputs_); }); });
  EXPECT_TRUE(run_again());
}

TEST_F(ForkedContext, on_a_gpu_is_freed_without_a_call_of_the_driver) {
  if (engine_.device().is_host()) GTEST_SKIP() << "the engine is for the CPU";
  EXPECT_TRUE(run_again());
  EXPECT_TRUE(run_again());  // has a recording too
  expect_in_child([&] {
    { const Context gone = std::move(context_); }
    return true;
  });
  EXPECT_TRUE(run_again());
}

TEST_F(ForkedContext, runs_in_the_child_first) {
  if (engine_.device().is_gpu()) GTEST_SKIP() << "CUDA does not work in a forked child";
  expect_in_child([&] { return run_again(); });
}

TEST_F(ForkedContext, runs_asynchronously_in_the_child) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer takes the child's thread for the parent's, which it does not know to be gone";
#endif
  if (engine_.device().is_gpu()) GTEST_SKIP() << "CUDA does not work in a forked child";
  EXPECT_TRUE(run_async());
  expect_in_child([&] {
    if (!run_async() || !run_async()) return false;
    const Context gone = std::move(context_);
    return true;
  });
  EXPECT_TRUE(run_async());
}

TEST_F(ForkedContext, which_shares_the_threads_of_the_process) {
  if (engine_.device().is_gpu()) GTEST_SKIP() << "CUDA does not work in a forked child";
  context_ = engine_.create_context({.threads = 2});
  SetUp();
  EXPECT_TRUE(run_again());
  expect_in_child([&] { return run_again(); });
}

}  // namespace
}  // namespace camshaft::shared_threads_test

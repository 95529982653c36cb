// Ranks through the C++ layer, and so through the C interface.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "camshaft/camshaft.hpp"

namespace camshaft::communicator_test {
namespace {

// y = the sum of all ranks' x.
Engine engine_of(int ranks) {
  Network net("sum");
  const NetworkValue x = net.input("x", DType::f32, {"n"});
  net.output(net("AllReduce", {x}, {{"group_size", ranks}}, "camshaft"), "y");
  return Builder(BuildOptions().set("tuning", "heuristic")).build(net);
}

template <class Call>
std::vector<std::string> on_threads(size_t count, const Call& call) {
  std::vector<std::string> thrown(count);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      try {
        call(r);
      } catch (const Error& e) {
        thrown[r] = e.what();
      }
    });
  for (std::thread& each : threads) each.join();
  return thrown;
}

TEST(Communicator, RanksOfThreads) {
  const Engine engine = Engine::load(engine_of(3).save());
  EXPECT_EQ(engine.ranks(), 3);
  std::vector<Communicator> ends = Communicator::local(3, 60);
  const auto thrown = on_threads(3, [&](size_t r) {
    EXPECT_EQ(ends[r].rank(), static_cast<int>(r));
    EXPECT_EQ(ends[r].size(), 3);
    Context context = engine.create_context(ContextOptions().set("threads", 1));
    context.set_communicator(ends[r]);
    const float x[] = {1, static_cast<float>(r)};
    context.set_input("x", {2}, x);
    context.run();
    EXPECT_EQ(context.output("y"), Tensor::of<float>(DType::f32, {2}, {3, 3}));
    int told = r == 1 ? 42 : 0;
    ends[r].broadcast(1, &told, sizeof(told));
    EXPECT_EQ(told, 42);
  });
  for (const std::string& each : thrown) EXPECT_EQ(each, "");
  ends[0].abort("enough");
  EXPECT_EQ(on_threads(1, [&](size_t) { ends[2].broadcast(0, nullptr, 0); })[0], "enough");
}

TEST(Communicator, AJoinThatIsCancelledGivesTheRankBack) {
  const std::string name = "test-cancelled-" + std::to_string(getpid());
  const Cancellation cancellation;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cancellation.cancel();
  });
  const auto start = std::chrono::steady_clock::now();
  ErrorCode code = ErrorCode::internal;
  try {
    Communicator::join(name, 0, 2, 100, cancellation);
  } catch (const Error& e) {
    code = e.code();
  }
  later.join();
  EXPECT_EQ(code, ErrorCode::cancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  const auto thrown =
      on_threads(2, [&](size_t r) { Communicator::join(name, static_cast<int>(r), 2, 20, Cancellation()); });
  for (const std::string& each : thrown) EXPECT_EQ(each, "");
}

TEST(Communicator, WhatCannotBeIsRefused) {
  EXPECT_THROW(Communicator::local(0), Error);
  EXPECT_THROW(Communicator::local(2, -1), Error);
  EXPECT_THROW(Communicator::join("", 0, 1), Error);
  EXPECT_THROW(Communicator::join("x", 1, 1), Error);
  const std::vector<Communicator> ends = Communicator::local(2);
  EXPECT_THROW(ends[0].broadcast(2, nullptr, 0), Error);
  EXPECT_THROW(ends[0].broadcast(0, nullptr, 1), Error);
  Context context = engine_of(3).create_context();
  EXPECT_THROW(context.set_communicator(ends[0]), Error);
  const float x = 1;
  context.set_input("x", {1}, &x);
  EXPECT_THROW(context.run(), Error) << "without a communicator";
  EXPECT_NE(camshaft_communicator_broadcast(nullptr, 0, nullptr, 0), CAMSHAFT_OK);
  EXPECT_NE(camshaft_communicator_abort(nullptr, "why"), CAMSHAFT_OK);
  EXPECT_NE(camshaft_communicators_create(2, 0, nullptr), CAMSHAFT_OK);
  EXPECT_NE(camshaft_communicator_join("x", 0, 1, 0, nullptr), CAMSHAFT_OK);
}

TEST(Communicator, OneProcessMayJoinAlone) {
  const Communicator alone = Communicator::join(
      "test-alone-" + std::to_string(std::hash<std::thread::id>()(std::this_thread::get_id())), 0, 1);
  Context context = engine_of(1).create_context();
  context.set_communicator(alone);
  const float x = 5;
  context.set_input("x", {1}, &x);
  context.run();
  EXPECT_EQ(context.output("y"), Tensor::of<float>(DType::f32, {1}, {5}));
}

}  // namespace
}  // namespace camshaft::communicator_test

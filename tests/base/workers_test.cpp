// Threads that pools share, and what is left of them in forked children.
#include "base/workers.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/expect_in_child.h"
#include "base/first_touch.h"
#include "base/thread_pool.h"

namespace camshaft::workers_test {
namespace {

// Whether each of `threads` threads of the pool calls the body, on a thread of its own.
bool runs_on(ThreadPool& pool, int threads) {
  if (pool.size() != threads) return false;
  std::vector<std::thread::id> ids(static_cast<size_t>(threads));
  std::atomic<int> arrived{0};
  pool.run([&](int thread) {
    ids[static_cast<size_t>(thread)] = std::this_thread::get_id();
    for (++arrived; arrived < threads;) std::this_thread::yield();  // none has the time for two parts
  });
  return std::set<std::thread::id>(ids.begin(), ids.end()).size() == ids.size() && ids[0] == std::this_thread::get_id();
}

TEST(Workers, refuse_less_than_one_thread) {
  EXPECT_THROW(Workers(0), Error);
  EXPECT_THROW(Workers(100000), Error);
  EXPECT_THROW(ThreadPool(100000), Error);
  EXPECT_THROW(ThreadPool(std::make_shared<Workers>(2), 0), Error);
}

TEST(Workers, a_session_has_what_its_pool_asks_for_and_there_is) {
  const auto workers = std::make_shared<Workers>(4);
  for (const int threads : {1, 2, 4, 9}) {
    ThreadPool pool(workers, threads);
    EXPECT_EQ(pool.most(), std::min(threads, 4));
    EXPECT_EQ(pool.size(), 1);
    EXPECT_TRUE(runs_on(pool, 1));
    for (int round = 0; round < 3; ++round) {
      const ThreadPool::Session session(pool);
      EXPECT_TRUE(runs_on(pool, std::min(threads, 4)));
    }
    EXPECT_EQ(pool.size(), 1);
  }
}

TEST(Workers, a_second_session_of_a_pool_is_an_error) {
  ThreadPool pool(std::make_shared<Workers>(2), 2);
  const ThreadPool::Session session(pool);
  EXPECT_THROW(ThreadPool::Session{pool}, Error);
}

TEST(Workers, sessions_divide_them_and_never_run_more_than_there_are) {
  const auto workers = std::make_shared<Workers>(4);
  ThreadPool first(workers, 4), second(workers, 4), third(workers, 1);
  std::optional<ThreadPool::Session> one(std::in_place, first), two(std::in_place, second);
  EXPECT_EQ(first.size(), 4);   // until it looks
  EXPECT_EQ(second.size(), 1);  // at least its caller
  second.adapt();
  EXPECT_EQ(second.size(), 1);
  first.adapt();
  EXPECT_TRUE(runs_on(first, 2));
  second.adapt();
  EXPECT_TRUE(runs_on(second, 2));
  // One that wants its caller alone takes a core from one of the others.
  std::optional<ThreadPool::Session> three(std::in_place, third);
  first.adapt();
  second.adapt();
  EXPECT_EQ(first.size() + second.size(), 3);
  EXPECT_TRUE(runs_on(third, 1));
  three.reset();
  two.reset();
  first.adapt();
  EXPECT_TRUE(runs_on(first, 4));
  one.reset();
  EXPECT_EQ(first.size(), 1);
}

TEST(Workers, more_sessions_than_threads_have_their_callers) {
  const auto workers = std::make_shared<Workers>(2);
  ThreadPool a(workers, 2), b(workers, 2), c(workers, 2);
  const ThreadPool::Session of_a(a), of_b(b), of_c(c);
  a.adapt();
  EXPECT_TRUE(runs_on(a, 1));
  EXPECT_TRUE(runs_on(b, 1));
  EXPECT_TRUE(runs_on(c, 1));
}

TEST(Workers, many_callers_at_once) {
  const auto workers = std::make_shared<Workers>(6);
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      ThreadPool pool(workers, 6);
      for (int round = 0; round < 200; ++round) {
        const ThreadPool::Session session(pool);
        for (int loop = 0; loop < 5; ++loop) {
          pool.adapt();
          pool.parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum.load(), 4 * 200 * 5 * 100);
}

TEST(Workers, those_of_the_process_are_one_set) {
  EXPECT_EQ(Workers::of_process(), Workers::of_process());
  EXPECT_GE(Workers::of_process()->limit(), 1);
}

TEST(TouchedPages, hold_zeros) {
  std::vector<std::byte> memory((size_t{5} << 20) + 17);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    touch_pages(pool, {});
    // Wherever a buffer begins and ends, between pages or stretches too.
    for (size_t begin = 0; begin < memory.size(); begin += 999'983) {
      std::fill(memory.begin(), memory.end(), std::byte{1});
      const std::span<std::byte> part = std::span(memory).subspan(begin);
      touch_pages(pool, part);
      const auto address = reinterpret_cast<uintptr_t>(part.data());
      for (size_t at = 0; at < part.size(); at += 4096 - (address + at) % 4096)
        ASSERT_EQ(part[at], std::byte{0}) << begin << " + " << at;
      ASSERT_TRUE(begin == 0 || memory[begin - 1] == std::byte{1});
    }
  }
}

// Pages of a new mapping that something was written to.
size_t resident_pages(std::byte* memory, size_t bytes) {
  std::vector<unsigned char> seen(bytes / 4096);
  EXPECT_EQ(mincore(memory, bytes, seen.data()), 0);
  return static_cast<size_t>(std::count_if(seen.begin(), seen.end(), [](unsigned char s) { return (s & 1) != 0; }));
}

TEST(SpreadMemory, is_touched_where_there_are_several_nodes) {
  const size_t bytes = size_t{6} << 20;
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* memory = static_cast<std::byte*>(mapped);
  madvise(mapped, bytes, MADV_NOHUGEPAGE);
  spread_over_nodes({memory, bytes}, 1);
  EXPECT_EQ(resident_pages(memory, bytes), 0U);
  spread_over_nodes({memory, size_t{4096}}, 2);
  EXPECT_EQ(resident_pages(memory, bytes), 0U);
  spread_over_nodes({memory, bytes}, 2);
  EXPECT_EQ(resident_pages(memory, bytes), bytes / 4096);
  munmap(mapped, bytes);
}

// ---- forks

TEST(Fork, a_pool_that_was_used_runs_in_the_child_and_in_the_parent) {
  for (const int threads : {2, 7}) {
    ThreadPool pool(threads);
    EXPECT_TRUE(runs_on(pool, threads));
    for (const bool parked : {false, true}) {
      if (parked) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      expect_in_child([&] { return runs_on(pool, threads) && runs_on(pool, threads); });
      EXPECT_TRUE(runs_on(pool, threads));
    }
  }
}

TEST(Fork, a_childs_child_has_workers_too) {
  ThreadPool pool(3);
  EXPECT_TRUE(runs_on(pool, 3));
  expect_in_child([&] {
    if (!runs_on(pool, 3)) return false;
    expect_in_child([&] { return runs_on(pool, 3); });
    return !testing::Test::HasFailure() && runs_on(pool, 3);
  });
}

TEST(Fork, shared_workers_are_new_in_the_child) {
  const auto workers = std::make_shared<Workers>(3);
  ThreadPool pool(workers, 3), other(workers, 3);
  {
    const ThreadPool::Session session(pool);
    EXPECT_TRUE(runs_on(pool, 3));
  }
  const ThreadPool::Session of_parent(other);  // which the child knows nothing of
  expect_in_child([&] {
    for (int round = 0; round < 2; ++round) {
      const ThreadPool::Session session(pool);
      if (!runs_on(pool, 3)) return false;
    }
    return true;
  });
  EXPECT_TRUE(runs_on(other, 3));
}

TEST(Fork, in_the_middle_of_a_session_goes_on_in_the_child) {
  ThreadPool pool(std::make_shared<Workers>(3), 3);
  const ThreadPool::Session session(pool);
  EXPECT_TRUE(runs_on(pool, 3));
  expect_in_child([&] {
    if (!runs_on(pool, 3)) return false;
    pool.adapt();
    return runs_on(pool, 3);
  });
  EXPECT_TRUE(runs_on(pool, 3));
}

TEST(Fork, while_other_threads_begin_and_end_sessions) {
  const auto workers = std::make_shared<Workers>(2);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    ThreadPool pool(workers, 2);
    while (!stop) {
      const ThreadPool::Session session(pool);
      pool.run([](int) {});
    }
  });
  ThreadPool pool(workers, 2);
  for (int round = 0; round < 20; ++round) {
    expect_in_child([&] {
      const ThreadPool::Session session(pool);
      return runs_on(pool, 2);
    });
  }
  stop = true;
  busy.join();
}

TEST(Fork, pools_and_workers_of_the_parent_end_in_the_child) {
#ifdef __SANITIZE_THREAD__
  // It ends the child: "dup thread with used id", of a thread whose stack is where one of the parent's was.
  GTEST_SKIP() << "ThreadSanitizer still knows the parent's threads";
#endif
  auto pool = std::make_unique<ThreadPool>(3);
  EXPECT_TRUE(runs_on(*pool, 3));
  expect_in_child([&] {
    pool.reset();
    ThreadPool own(3);
    return runs_on(own, 3);
  });
}

}  // namespace
}  // namespace camshaft::workers_test

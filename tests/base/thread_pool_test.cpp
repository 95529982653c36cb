#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/worker.h"
#include "test_random.h"

namespace {
std::atomic<int> allocations{0};
}

// Counts all allocations of this program, to see that there are none where there should be none. Not inlined: gcc would
// see free() of memory from new and warn.
[[gnu::noinline]] void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace camshaft::thread_pool_test {
namespace {

TEST(ThreadPool, refuses_less_than_one_thread) {
  for (int threads : {0, -1}) {
    try {
      ThreadPool pool(threads);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    }
  }
}

TEST(ThreadPool, every_thread_runs_once_and_results_are_visible) {
  for (int threads : {1, 2, 3, 7, 16, 64}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    std::vector<int> calls(threads, 0);  // plain ints: the pool itself must order the accesses
    const int rounds = threads > 8 ? 20 : 500;
    for (int round = 0; round < rounds; ++round) pool.run([&](int thread) { ++calls[thread]; });
    for (int thread = 0; thread < threads; ++thread) EXPECT_EQ(calls[thread], rounds) << threads;
  }
}

TEST(ThreadPool, thread_zero_is_the_caller_and_the_others_are_not) {
  ThreadPool pool(3);
  std::vector<std::thread::id> ids(3);
  std::atomic<int> arrived{0};
  pool.run([&](int thread) {
    ids[thread] = std::this_thread::get_id();
    for (++arrived; arrived < 3;) std::this_thread::yield();  // none has the time for two parts
  });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[2], ids[0]);
  EXPECT_NE(ids[1], ids[2]);
}

TEST(ThreadPool, wakes_parked_workers_and_a_parked_caller) {
  ThreadPool pool(3);
  std::atomic<int> calls{0};
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(round * 20));  // spans spinning, yielding and parked
    pool.run([&](int thread) {
      if (thread == 1) std::this_thread::sleep_for(std::chrono::microseconds(round * 20));  // the caller parks
      calls.fetch_add(1, std::memory_order_relaxed);
    });
  }
  EXPECT_EQ(calls.load(), 60);
}

// Threads that meet within a loop, of which some come late and none can do another's part before they have met.
TEST(ThreadPool, threads_may_wait_for_each_other) {
  for (const int threads : {2, 5, 9}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> arrived{0};
      pool.run([&](int thread) {
        if (thread == 0) return;
        for (++arrived; arrived < threads - 1;) std::this_thread::yield();
      });
      EXPECT_EQ(arrived.load(), threads - 1);
    }
  }
}

TEST(Worker, what_it_has_not_begun_is_taken_back_and_nothing_runs_twice) {
  Worker worker(1, false);
  int calls = 0, taken = 0;  // plain: the worker itself must order the accesses
  Loop loop;
  loop.body = &calls;
  loop.call = [](void* body, int) { ++*static_cast<int*>(body); };
  loop.threads = 1;
  constexpr int rounds = 3000;
  for (int round = 0; round < rounds; ++round) {
    if (round % 10 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));  // it sleeps by then
    worker.start(loop, 1);
    for (int i = round % 64; i > 0; --i) std::atomic_signal_fence(std::memory_order_seq_cst);
    if (worker.take_back()) {
      ++taken;
      loop.call(loop.body, 1);
    } else {
      worker.await();
    }
    ASSERT_EQ(calls, round + 1);
  }
  EXPECT_GT(taken, 0);
  worker.stop();
}

TEST(ThreadPool, a_loop_may_use_the_first_threads_alone) {
  for (const int threads : {2, 5, 6, 23}) {  // one level of the tree, and two
    ThreadPool pool(threads);
    for (int used = 1; used <= threads; ++used) {
      std::vector<int> calls(threads, 0);
      pool.run(used, [&](int thread) { ++calls[thread]; });
      for (int thread = 0; thread < threads; ++thread) EXPECT_EQ(calls[thread], thread < used ? 1 : 0);
    }
    EXPECT_THROW(pool.run(threads + 1, [](int) {}), Error);
  }
}

TEST(ThreadPool, rethrows_on_the_caller_and_goes_on_working) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int thrower = 0; thrower < threads; ++thrower) {
      EXPECT_THROW(pool.run([&](int thread) {
        if (thread == thrower) throw std::out_of_range("boom");
      }),
                   std::out_of_range);
      std::atomic<int> calls{0};
      pool.run([&](int) { ++calls; });
      EXPECT_EQ(calls.load(), threads);
    }
    EXPECT_THROW(pool.run([](int) { throw Error(ErrorCode::cancelled, "all at once"); }), Error);
  }
}

TEST(ThreadPool, a_nested_loop_is_an_error_not_a_deadlock) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.run([&](int) { pool.run([](int) {}); }), Error);
}

TEST(ThreadPool, parallel_for_covers_the_range_once_at_multiples_of_the_grain) {
  Random random = test_random();
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 100; ++round) {
      const int64_t count = random.integer(0, 199);
      const int64_t grain = random.integer(0, 19);
      std::vector<int> seen(count, 0);
      std::atomic<int> pieces{0};
      std::atomic<bool> aligned{true};
      pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
        ++pieces;
        if (begin % std::max<int64_t>(grain, 1) != 0) aligned = false;
        for (int64_t i = begin; i < end; ++i) ++seen[i];
      });
      EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), int64_t{0}), count);
      EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
      EXPECT_TRUE(aligned);
      EXPECT_LE(pieces.load(), threads);
    }
    std::atomic<int64_t> total{0};
    pool.parallel_for(10, INT64_MAX, [&](int64_t begin, int64_t end) { total += end - begin; });
    EXPECT_EQ(total.load(), 10);
  }
}

TEST(ThreadPool, runs_without_allocating) {
  ThreadPool pool(3);
  std::vector<int> calls(3, 0);
  const int before = allocations.load();
  for (int round = 0; round < 100; ++round) {
    pool.run([&](int thread) { ++calls[thread]; });
    pool.parallel_for(1000, 16, [&](int64_t begin, int64_t) {
      if (begin == 0) ++calls[0];
    });
  }
  EXPECT_EQ(allocations.load(), before);
  EXPECT_EQ(calls[0], 200);
  { const std::vector<int> counted(10); }
  EXPECT_GT(allocations.load(), before);
}

TEST(ThreadPool, leaves_the_affinity_of_its_threads_alone) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  ThreadPool pool(2);
  std::vector<cpu_set_t> seen(2);
  for (int round = 0; round < 10; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.run([&](int thread) { sched_getaffinity(0, sizeof(cpu_set_t), &seen[thread]); });
    EXPECT_TRUE(CPU_EQUAL(&seen[0], &before));
    EXPECT_TRUE(CPU_EQUAL(&seen[1], &before));
  }
}

TEST(ThreadPool, several_pools_at_once) {
  std::vector<std::thread> callers;
  std::atomic<int> calls{0};
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      ThreadPool pool(3);
      for (int round = 0; round < 200; ++round) pool.run([&](int) { calls.fetch_add(1, std::memory_order_relaxed); });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(calls.load(), 3 * 3 * 200);
}

}  // namespace
}  // namespace camshaft::thread_pool_test

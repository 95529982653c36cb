// What ranks meet over: threads, processes, and those who go, die, wait in vain or do something else.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <tuple>

#include "runtime/on_ranks.h"
#include "runtime/rank_environment.h"
#include "runtime/shared_communicator.h"
#include "test_random.h"

namespace camshaft::communicator_test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(Random& random, size_t count) {
  Bytes made(count);
  for (std::byte& each : made) each = static_cast<std::byte>(random.integer(0, 255));
  return made;
}

// What a rank is given, by rank.
std::vector<Bytes> exchanged(Communicator& over, std::string_view call, const Bytes& mine, size_t bytes) {
  std::vector<Bytes> all(static_cast<size_t>(over.size()));
  over.exchange(call, mine, bytes, [&](int rank, size_t offset, std::span<const std::byte> part) {
    Bytes& to = all[static_cast<size_t>(rank)];
    EXPECT_EQ(to.size(), part.empty() ? to.size() : offset);
    to.insert(to.end(), part.begin(), part.end());
  });
  return all;
}

std::string unused_name() {
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(std::random_device{}());
}

TEST(Communicator, GivesAllWhatEachBrings) {
  Random random = test_random();
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const auto ends = local_communicators(ranks);
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{777}, size_t{1} << 20, (size_t{5} << 19) + 3}) {
      std::vector<Bytes> brought;
      for (int r = 0; r < ranks; ++r) brought.push_back(random_bytes(random, bytes));
      const int silent = static_cast<int>(random.integer(0, ranks));  // one rank, or none, brings nothing
      const auto thrown = on_ranks(static_cast<size_t>(ranks), [&](size_t r) {
        const Bytes& mine = static_cast<int>(r) == silent ? Bytes() : brought[r];
        for (int round = 0; round < 5; ++round) {
          const auto all = exchanged(*ends[r], "bytes", mine, bytes);
          for (size_t other = 0; other < all.size(); ++other)
            ASSERT_EQ(all[other], static_cast<int>(other) == silent ? Bytes() : brought[other]);
        }
      });
      for (const std::string& each : thrown) EXPECT_EQ(each, "");
    }
  }
}

TEST(Communicator, ManyShortExchanges) {
  const auto ends = local_communicators(3);
  const auto thrown = on_ranks(3, [&](size_t r) {
    for (uint32_t round = 0; round < 5000; ++round) {
      const uint32_t mine = round * 3 + static_cast<uint32_t>(r);
      uint32_t sum = 0;
      ends[r]->exchange("sum", std::as_bytes(std::span(&mine, 1)), sizeof(mine),
                        [&](int, size_t, std::span<const std::byte> part) {
                          uint32_t value = 0;
                          std::memcpy(&value, part.data(), sizeof(value));
                          sum += value;
                        });
      ASSERT_EQ(sum, 9 * round + 3);
    }
  });
  for (const std::string& each : thrown) EXPECT_EQ(each, "");
}

TEST(Communicator, SaysAlikeThatRanksDoDifferentThings) {
  const auto ends = local_communicators(3);
  const auto thrown =
      on_ranks(3, [&](size_t r) { exchanged(*ends[r], r == 1 ? "a sum of f32[4]" : "a sum of f32[3]", Bytes(8), 8); });
  for (const std::string& each : thrown)
    EXPECT_EQ(each, "ranks do different things: rank 0 is at a sum of f32[3]; rank 1 at a sum of f32[4]");
  for (const std::string& each : on_ranks(3, [&](size_t r) { exchanged(*ends[r], "a sum", Bytes(8), 8); }))
    EXPECT_NE(each.find("ranks do different things"), std::string::npos) << each;
}

TEST(Communicator, NobodyWaitsForWhoFailedOrLeft) {
  for (const bool leaves : {false, true}) {
    auto ends = local_communicators(3);
    const auto start = std::chrono::steady_clock::now();
    const auto thrown = on_ranks(3, [&](size_t r) {
      if (r == 2 && leaves) return ends[2].reset();
      if (r == 2) return ends[2]->abort("rank 2: out of luck");
      exchanged(*ends[r], "a sum", Bytes(8), 8);
    });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    for (const size_t r : {size_t{0}, size_t{1}})
      EXPECT_EQ(thrown[r], leaves ? "rank 2 has left before a sum" : "rank 2: out of luck");
  }
}

TEST(Communicator, WhoDoesNotComeIsNotWaitedForForever) {
  const auto ends = local_communicators(2, 0.3);
  const auto thrown = on_ranks(1, [&](size_t) { exchanged(*ends[0], "a sum", Bytes(8), 8); });
  EXPECT_EQ(thrown[0], "rank 1 did not come within 0.3 s before a sum");
  EXPECT_NE(on_ranks(1, [&](size_t) { exchanged(*ends[1], "a sum", Bytes(8), 8); })[0], "");
}

TEST(Communicator, ImpossibleOnesAreRefused) {
  EXPECT_THROW(local_communicators(0), Error);
  EXPECT_THROW(local_communicators(-1), Error);
  EXPECT_THROW(local_communicators(100000), Error);
  EXPECT_THROW(local_communicators(2, -1), Error);
  EXPECT_THROW(join_communicator("name", 2, 2), Error);
  EXPECT_THROW(join_communicator("a/b", 0, 1), Error);
  EXPECT_THROW(join_communicator("", 0, 1), Error);
}

TEST(Communicator, TwoOfThreadsMayJoinByAName) {
  const std::string name = unused_name();
  for (int round = 0; round < 3; ++round) {  // the name is free again each time
    const auto thrown = on_ranks(2, [&](size_t r) {
      const auto end = join_communicator(name, static_cast<int>(r), 2, 20);
      const auto all = exchanged(*end, "a byte", Bytes(1, static_cast<std::byte>(r)), 1);
      ASSERT_EQ(all[1 - r], Bytes(1, static_cast<std::byte>(1 - r)));
    });
    for (const std::string& each : thrown) EXPECT_EQ(each, "");
    EXPECT_NE(access(("/dev/shm/camshaft-" + std::to_string(getuid()) + "-" + name).c_str(), F_OK), 0);
  }
}

TEST(Communicator, RanksThatDoNotFitAreRefused) {
  const std::string name = unused_name();
  std::string waited;
  std::thread first([&] {
    try {
      join_communicator(name, 0, 2, 2);
    } catch (const Error& e) {
      waited = e.what();
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_THROW(join_communicator(name, 0, 2, 1), Error) << "rank 0 is there";
  EXPECT_THROW(join_communicator(name, 1, 3, 1), Error) << "it is one of two";
  first.join();
  EXPECT_NE(waited.find("rank 1 of 2 has not joined within 2 s"), std::string::npos) << waited;
  // What it has left behind is in nobody's way.
  for (const std::string& each : on_ranks(2, [&](size_t r) { join_communicator(name, static_cast<int>(r), 2, 20); }))
    EXPECT_EQ(each, "");
}

std::string memory_of(const std::string& name) {
  return "/dev/shm/camshaft-" + std::to_string(getuid()) + "-" + name;
}

TEST(Communicator, WhoWaitsInVainLeavesNothing) {
  const std::string name = unused_name();
  EXPECT_THROW(join_communicator(name, 0, 2, 0.2), Error);
  EXPECT_NE(access(memory_of(name).c_str(), F_OK), 0);
}

// A process that runs `call` and nothing else of the test.
template <class Call>
pid_t child(const Call& call) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  int code = 1;
  try {
    code = call();
  } catch (const std::exception&) {
    code = 2;
  }
  _exit(code);
}

int result_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Communicator, ProcessesMeet) {
  const std::string name = unused_name();
  std::vector<pid_t> children;
  for (int r = 1; r < 3; ++r)
    children.push_back(child([&, r] {
      const auto end = join_communicator(name, r, 3, 20);
      for (int round = 0; round < 200; ++round) {
        const auto all = exchanged(*end, "a byte", Bytes(1, static_cast<std::byte>(r + round)), 1);
        for (int other = 0; other < 3; ++other)
          if (all[static_cast<size_t>(other)] != Bytes(1, static_cast<std::byte>(other + round))) return 3;
      }
      return 0;
    }));
  const auto end = join_communicator(name, 0, 3, 20);
  for (int round = 0; round < 200; ++round) {
    const auto all = exchanged(*end, "a byte", Bytes(1, static_cast<std::byte>(round)), 1);
    ASSERT_EQ(all[2], Bytes(1, static_cast<std::byte>(2 + round)));
  }
  for (const pid_t each : children) EXPECT_EQ(result_of(each), 0);
}

// Nobody asks for its name again.
TEST(Communicator, WhatAKilledProcessLeavesGoesWithTheNextJob) {
  const std::string left = unused_name(), waiting = unused_name() + "-waiting";
  const auto waits = [](const std::string& name) {
    const pid_t pid = child([&] { return join_communicator(name, 0, 2, 100), 0; });
    while (access(memory_of(name).c_str(), F_OK) != 0) usleep(1000);
    usleep(100'000);  // until it has its lock
    return pid;
  };
  const pid_t killed = waits(left), lives = waits(waiting);
  kill(killed, SIGKILL);
  result_of(killed);
  EXPECT_EQ(access(memory_of(left).c_str(), F_OK), 0);
  join_communicator(unused_name() + "-next", 0, 1, 20);
  EXPECT_NE(access(memory_of(left).c_str(), F_OK), 0);
  EXPECT_EQ(access(memory_of(waiting).c_str(), F_OK), 0) << "it is in use";
  kill(lives, SIGKILL);
  result_of(lives);
  unlink(memory_of(waiting).c_str());
}

TEST(Communicator, ADeadProcessIsNoticed) {
  const std::string name = unused_name();
  const pid_t dies = child([&] {
    const auto end = join_communicator(name, 1, 3, 20);
    exchanged(*end, "first", Bytes(8), 8);
    return pause(), 0;
  });
  const pid_t hears = child([&] {
    const auto end = join_communicator(name, 2, 3, 20);
    exchanged(*end, "first", Bytes(8), 8);
    try {
      exchanged(*end, "second", Bytes(8), 8);
    } catch (const Error& e) {
      return std::string_view(e.what()) == "rank 1 has died before second" ? 0 : 3;
    }
    return 4;
  });
  const auto end = join_communicator(name, 0, 3, 20);
  exchanged(*end, "first", Bytes(8), 8);
  const auto start = std::chrono::steady_clock::now();
  kill(dies, SIGKILL);  // who is not waited for: a zombie is dead, too
  const auto thrown = on_ranks(1, [&](size_t) { exchanged(*end, "second", Bytes(8), 8); });
  EXPECT_EQ(thrown[0], "rank 1 has died before second");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(result_of(hears), 0);
  EXPECT_EQ(result_of(dies), -SIGKILL);
}

TEST(Communicator, TheEnvironmentNamesARank) {
  const auto set = [](const char* rank, const char* size, const char* port) {
    rank ? setenv("RANK", rank, 1) : unsetenv("RANK");
    size ? setenv("WORLD_SIZE", size, 1) : unsetenv("WORLD_SIZE");
    port ? setenv("MASTER_PORT", port, 1) : unsetenv("MASTER_PORT");
  };
  set("1", "4", "29500");
  const RankEnvironment found = rank_environment();
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.size, 4);
  EXPECT_EQ(found.name, "port-29500");
  using Variables = std::tuple<const char*, const char*, const char*>;
  const std::vector<Variables> wrong{{nullptr, "4", "1"}, {"1", nullptr, "1"}, {"1", "4", nullptr},
                                     {"one", "4", "1"},   {"-1", "4", "1"},    {"1", "", "1"}};
  for (const auto& [rank, size, port] : wrong) {
    set(rank, size, port);
    EXPECT_THROW(rank_environment(), Error);
  }
  set("1", "4", "29500");
  setenv("LOCAL_WORLD_SIZE", "2", 1);
  EXPECT_THROW(rank_environment(), Error) << "of several machines";
  unsetenv("LOCAL_WORLD_SIZE");
  set(nullptr, nullptr, nullptr);
}

}  // namespace
}  // namespace camshaft::communicator_test

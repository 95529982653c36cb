// Where the numbers of every random test come from: scripts/test.sh --seed has a run draw the same ones again.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "base/random.h"

namespace camshaft {

/// CAMSHAFT_TEST_SEED, or else another number each time. Printed at once, for the test may crash, and kept in the
/// results.
inline uint64_t test_seed() {
  const char* given = std::getenv("CAMSHAFT_TEST_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  const std::string text = std::to_string(seed);
  std::printf("CAMSHAFT_TEST_SEED=%s\n", text.c_str());
  std::fflush(stdout);
  testing::Test::RecordProperty("CAMSHAFT_TEST_SEED", text);
  return seed;
}

inline Random test_random() {
  return Random(test_seed());
}

}  // namespace camshaft

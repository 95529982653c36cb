// Where random tests of the server take their numbers from: they know nothing of src/, which tests/test_random.h needs.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace camshaft::server {

/// By CAMSHAFT_TEST_SEED, or else another each time; printed at once and kept in the results.
inline std::mt19937_64 seeded_random() {
  const char* given = std::getenv("CAMSHAFT_TEST_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  const std::string text = std::to_string(seed);
  std::printf("CAMSHAFT_TEST_SEED=%s\n", text.c_str());
  std::fflush(stdout);
  testing::Test::RecordProperty("CAMSHAFT_TEST_SEED", text);
  return std::mt19937_64(seed);
}

}  // namespace camshaft::server

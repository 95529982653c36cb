// A function on a thread for each rank, and what it throws there.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace camshaft {

/// What each rank's call threw; empty where it returned.
inline std::vector<std::string> on_ranks(size_t ranks, const std::function<void(size_t rank)>& call) {
  std::vector<std::string> thrown(ranks);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        call(r);
      } catch (const std::exception& e) {
        thrown[r] = *e.what() ? e.what() : "something";
      }
    });
  for (std::thread& each : threads) each.join();
  return thrown;
}

}  // namespace camshaft

// Waiting for a word that another thread changes: spin first, then sleep in the kernel. Internal to the thread pool.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace camshaft {

// Between two kernels of a model lie a few µs, between two inferences often more than 50: long enough to catch the
// first, short enough not to burn a core through the second.
inline constexpr auto spin_time = std::chrono::microseconds(50);
// From here on the spinner offers its core at every turn: other processes may want it.
inline constexpr auto polite_after = std::chrono::microseconds(20);
// Threads of loops like ours give the core back within this. Whoever keeps it longer has taken a slice of some ms, for
// which the other threads of the loop wait: then nothing is offered for a while. (16 sentences by MiniLM in bf16 on two
// threads of two cores, beside one busy process of low priority: 15 to 35 ms with every offer, 13 to 18 so; two
// processes of two threads each lose nothing, which without offers did 0.8 of their work.)
inline constexpr auto longest_offer = std::chrono::microseconds(1500);
inline constexpr auto between_long_offers = std::chrono::milliseconds(100);

inline void spin_pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The futex system call itself, not std::atomic::wait: libstdc++ keeps waiters in a global hashed table, which two
// pools can share a line of, and always spins in its own way first.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

inline void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

/// Lets others have the core, unless that lately took long.
inline void offer_core(std::chrono::steady_clock::time_point now) {
  thread_local std::chrono::steady_clock::time_point not_before;
  if (now < not_before) return spin_pause();
  sched_yield();
  const auto back = std::chrono::steady_clock::now();
  if (back - now > longest_offer) not_before = back + between_long_offers;
}

/// Spins until `done()`; false if it was not so within spin_time. `oversubscribed`: there are more threads than cores,
/// so that what is waited for may need this one.
template <class Done>
bool spin_until(const Done& done, bool oversubscribed) {
  // Reading the clock takes about 20 ns, as long as one pause: look at it every 32.
  for (int i = 0; i < 32; ++i) {
    if (done()) return true;
    oversubscribed ? static_cast<void>(sched_yield()) : spin_pause();
  }
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    if (now - start > spin_time) return done();
    if (oversubscribed || now - start > polite_after) {
      if (done()) return true;
      oversubscribed ? static_cast<void>(sched_yield()) : offer_core(now);
      continue;
    }
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      spin_pause();
    }
  }
}

}  // namespace camshaft

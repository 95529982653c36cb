// Stacks that take turns on one host thread.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

/// Where a stack stands while another one runs.
struct Turn {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
};

/// Goes on at `to`, and returns when somebody goes on at `from`.
void switch_turn(Turn& from, Turn& to);

/// A stack of its own, with an unreadable page below.
class Stack {
 public:
  Stack();
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  /// The next turn begins `entry`, which never returns.
  void begin(void (*entry)());
  /// Whether an address is in the page below: the stack was too small.
  bool overflowed_at(const void* address) const;

  Turn turn;

 private:
  std::byte* memory_ = nullptr;
};

}  // namespace emulator

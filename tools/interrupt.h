// Ctrl-C.
#pragma once

#include <csignal>

#include "camshaft/cancellation.hpp"

namespace camshaft::tools {

/// From the first call on, SIGINT and SIGTERM cancel what this returns, once; a second signal ends the process at once,
/// as it would have without.
Cancellation cancel_on_interrupt();
/// 130 or 143, by the signal that came.
int interrupted_exit_code();

/// As long as one lives, these signals end the process at once: for what cannot be cancelled, may take long and leaves
/// nothing half-done.
class EndsAtOnce {
 public:
  EndsAtOnce();
  ~EndsAtOnce();
  EndsAtOnce(const EndsAtOnce&) = delete;
  EndsAtOnce& operator=(const EndsAtOnce&) = delete;

 private:
  struct sigaction before_[2];
};

}  // namespace camshaft::tools

// Threads that no signal goes to.
#pragma once

#include <pthread.h>

#include <csignal>

namespace camshaft {

/// Threads that are started while it lives get no signals. These are the application's business: its own threads must
/// get them (Ctrl-C), not the library's.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace camshaft

#include "tools/interrupt.h"

#include <csignal>

namespace camshaft::tools {

namespace {

const Cancellation& shared_cancellation() {
  static const Cancellation cancellation;
  return cancellation;
}

const Cancellation* installed = nullptr;
volatile std::sig_atomic_t caught = SIGINT;

void on_signal(int signal) {
  caught = signal;
  installed->cancel();
}

}  // namespace

Cancellation cancel_on_interrupt() {
  if (!installed) {
    installed = &shared_cancellation();
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigemptyset(&action.sa_mask);
    for (const int signal : {SIGINT, SIGTERM}) {
      struct sigaction before {};
      // Ignored from the start (nohup, a background job of a shell without job control) stays ignored.
      if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
    }
  }
  return *installed;
}

int interrupted_exit_code() {
  return 128 + caught;
}

}  // namespace camshaft::tools

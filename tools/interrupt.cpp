#include "tools/interrupt.h"

#include <iterator>

namespace camshaft::tools {

namespace {

const Cancellation& shared_cancellation() {
  static const Cancellation cancellation;
  return cancellation;
}

const Cancellation* installed = nullptr;
constexpr int signals[] = {SIGINT, SIGTERM};
volatile std::sig_atomic_t caught = SIGINT;

void on_signal(int signal) {
  caught = signal;
  // A second one, of whichever kind, is not to wait for anything.
  struct sigaction at_once {};
  at_once.sa_handler = SIG_DFL;
  sigemptyset(&at_once.sa_mask);
  for (const int other : signals) {
    struct sigaction before {};
    sigaction(other, nullptr, &before);
    if (before.sa_handler == on_signal) sigaction(other, &at_once, nullptr);
  }
  installed->cancel();
}

}  // namespace

Cancellation cancel_on_interrupt() {
  if (!installed) {
    installed = &shared_cancellation();
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (const int signal : signals) {
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

EndsAtOnce::EndsAtOnce() {
  struct sigaction at_once {};
  at_once.sa_handler = SIG_DFL;
  sigemptyset(&at_once.sa_mask);
  for (size_t i = 0; i < std::size(signals); ++i) {
    sigaction(signals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == on_signal) sigaction(signals[i], &at_once, nullptr);
  }
}

EndsAtOnce::~EndsAtOnce() {
  for (size_t i = 0; i < std::size(signals); ++i)
    if (before_[i].sa_handler == on_signal) sigaction(signals[i], &before_[i], nullptr);
}

}  // namespace camshaft::tools

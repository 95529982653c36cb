#include "faults.h"

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "block_runner.h"
#include "memory.h"

namespace emulator {

namespace {

std::map<int, struct sigaction> earlier;

// In a kernel the code that was interrupted is the kernel's own, so that anything may be called here.
void on_fault(int signal, siginfo_t* info, void*) {
  BlockRunner* runner = BlockRunner::in_kernel();
  if (runner == nullptr) {
    if (is_device_memory(reinterpret_cast<uintptr_t>(info->si_addr), 1) && (signal == SIGSEGV || signal == SIGBUS))
      std::fputs("emulated GPU: the host touches device memory\n", stderr);
    sigaction(signal, &earlier[signal], nullptr);  // and the same instruction faults again
    return;
  }
  sigset_t same;
  sigemptyset(&same);
  sigaddset(&same, signal);
  pthread_sigmask(SIG_UNBLOCK, &same, nullptr);  // this handler never returns
  switch (signal) {
    case SIGFPE:
      runner->fail("a division of integers by zero");
    case SIGILL:
    case SIGTRAP:
      runner->fail("a pointer that is not aligned to its type, an index outside of an array, or __trap()");
    default:
      if (runner->overflowed_at(info->si_addr)) runner->fail("more local memory than a thread has");
      if (const long after = runner->bytes_after_shared(info->si_addr); after >= 0)
        runner->fail("touches shared memory " + std::to_string(after) + " bytes after its end");
      // An access that is not aligned as its instruction wants it comes without an address.
      runner->fail("touches an address that is " + describe(reinterpret_cast<uintptr_t>(info->si_addr)) +
                   (info->si_addr == nullptr ? ", or one that is not aligned" : ""));
  }
}

}  // namespace

void catch_faults() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE}) {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(signal, &action, &earlier[signal]);
  }
}

}  // namespace emulator

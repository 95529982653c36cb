#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace emulator {

namespace {

constexpr size_t page = 4096, stack_bytes = 128 * 1024;

}  // namespace

#if defined(__x86_64__)

// What a called function must preserve; a switch takes a few nanoseconds, where swapcontext() takes two system calls.
asm(R"(
.text
.type emulator_switch_turn, @function
emulator_switch_turn:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch_turn, . - emulator_switch_turn
)");
extern "C" void emulator_switch_turn(void** from, void* to);

void switch_turn(Turn& from, Turn& to) {
  emulator_switch_turn(&from.stack_pointer, to.stack_pointer);
}

void Stack::begin(void (*entry)()) {
  auto* top = reinterpret_cast<uintptr_t*>(memory_ + page + stack_bytes);
  *--top = 0;  // where entry() would return to
  *--top = reinterpret_cast<uintptr_t>(entry);
  for (int saved = 0; saved < 6; ++saved) *--top = 0;
  turn.stack_pointer = top;
}

#else

void switch_turn(Turn& from, Turn& to) {
  swapcontext(&from.context, &to.context);
}

void Stack::begin(void (*entry)()) {
  getcontext(&turn.context);
  turn.context.uc_stack.ss_sp = memory_ + page;
  turn.context.uc_stack.ss_size = stack_bytes;
  turn.context.uc_link = nullptr;
  makecontext(&turn.context, entry, 0);
}

#endif

Stack::Stack() {
  void* memory = mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  mprotect(memory_, page, PROT_NONE);
}

Stack::~Stack() {
  munmap(memory_, page + stack_bytes);
}

bool Stack::overflowed_at(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  return at >= memory_ && at < memory_ + page;
}

}  // namespace emulator

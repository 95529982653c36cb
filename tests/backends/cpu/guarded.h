// Tensors that end where the readable memory ends.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <stdexcept>

#include "ir/tensor.h"

namespace camshaft::cpu {

/// The same tensor, its last byte the last one before an unreadable page: a
/// kernel that reads past the end of an operand crashes, vectors of every instruction set included. Tensors of objects
/// and empty ones come back as they are.
inline Tensor guarded(const Tensor& t) {
  if (!t.defined() || t.bytes() == 0 || holds_objects(t.dtype())) return t;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t used = (t.bytes() + page - 1) / page * page, mapped = used + page;
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
  const std::shared_ptr<void> owner(memory, [mapped](void* p) { munmap(p, mapped); });
  std::byte* start = static_cast<std::byte*>(memory) + used - t.bytes();
  std::memcpy(start, t.data(), t.bytes());
  if (mprotect(static_cast<std::byte*>(memory) + used, page, PROT_NONE) != 0)
    throw std::runtime_error("mprotect failed");
  return Tensor(t.dtype(), t.dims(), {start, t.bytes()}, owner);
}

}  // namespace camshaft::cpu

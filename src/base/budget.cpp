#include "base/budget.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/format_bytes.h"
#include "base/work_scope.h"

namespace camshaft {

Budget::Budget(double operations, size_t bytes, std::string operations_way_out, std::string bytes_way_out)
    : operations_(operations),
      bytes_(bytes),
      operations_way_out_(std::move(operations_way_out)),
      bytes_way_out_(std::move(bytes_way_out)) {}

void Budget::check_operations(double count, std::string_view what) const {
  if (count > operations_)
    throw Error(ErrorCode::unsupported, fmt::format("{} needs {:.2g} operations, and {:.2g} are allowed: {}", what,
                                                    count, operations_, operations_way_out_));
}

void Budget::take_operations(double count) {
  const double taken = operations_taken_.fetch_add(count, std::memory_order_relaxed) + count;
  if (taken <= operations_) return;
  check_operations(count);
  throw Error(ErrorCode::unsupported,
              fmt::format("with its {:.2g} operations {:.2g} have been taken in all, and {:.2g} are allowed: {}", count,
                          taken, operations_, operations_way_out_));
}

void Budget::take_bytes(size_t count) {
  const size_t in_use = bytes_in_use_.fetch_add(count, std::memory_order_relaxed) + count;
  if (in_use > bytes_) {
    give_back_bytes(count);
    throw Error(ErrorCode::out_of_memory,
                fmt::format("it needs {}, with which {} would be in use, and {} are allowed: {}", format_bytes(count),
                            format_bytes(in_use), format_bytes(bytes_), bytes_way_out_));
  }
  size_t most = most_bytes_in_use();
  while (in_use > most && !most_bytes_in_use_.compare_exchange_weak(most, in_use, std::memory_order_relaxed)) {
  }
}

MemoryClaim::MemoryClaim(size_t bytes) {
  std::shared_ptr<Budget> budget = current_budget();
  if (!budget) return;
  budget->take_bytes(bytes);
  budget_ = std::move(budget);
  bytes_ = bytes;
}

MemoryClaim::~MemoryClaim() {
  if (budget_) budget_->give_back_bytes(bytes_);
}

MemoryClaim::MemoryClaim(MemoryClaim&& other) noexcept
    : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryClaim& MemoryClaim::operator=(MemoryClaim&& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace camshaft

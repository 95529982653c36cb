// How many operations and how much memory a long call may take.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace camshaft {

/// What a call, a build say, may take in all. Any thread may use it. Where it applies: WorkScope.
class Budget {
 public:
  /// `way_out` ends the messages: how to get a larger budget.
  Budget(double operations, size_t bytes, std::string operations_way_out, std::string bytes_way_out);

  /// Of work that is about to be done. Throws Error(unsupported) once more than all was taken.
  void take_operations(double count);
  /// Of work that is not to count after all.
  void give_back_operations(double count) noexcept { operations_taken_.fetch_sub(count, std::memory_order_relaxed); }
  /// Throws Error(unsupported), "<what> needs …", where a single piece of work is more than all; takes nothing.
  void check_operations(double count, std::string_view what = "it") const;

  /// Throws Error(out_of_memory) where more than all would be in use.
  void take_bytes(size_t count);
  void give_back_bytes(size_t count) noexcept { bytes_in_use_.fetch_sub(count, std::memory_order_relaxed); }
  size_t most_bytes_in_use() const { return most_bytes_in_use_.load(std::memory_order_relaxed); }
  /// Below 0 where more was taken.
  double operations_left() const { return operations_ - operations_taken(); }
  double operations_taken() const { return operations_taken_.load(std::memory_order_relaxed); }

 private:
  const double operations_;
  const size_t bytes_;
  const std::string operations_way_out_, bytes_way_out_;
  std::atomic<double> operations_taken_{0};
  std::atomic<size_t> bytes_in_use_{0}, most_bytes_in_use_{0};
};

/// Memory that the budget of the calling thread's WorkScope, if it has one, counts as long as this lives. It may
/// outlive the scope.
class MemoryClaim {
 public:
  MemoryClaim() = default;
  /// Throws Error(out_of_memory).
  explicit MemoryClaim(size_t bytes);
  ~MemoryClaim();
  MemoryClaim(MemoryClaim&& other) noexcept;
  MemoryClaim& operator=(MemoryClaim&& other) noexcept;

 private:
  std::shared_ptr<Budget> budget_;
  size_t bytes_ = 0;
};

}  // namespace camshaft

// What bounds the work that a thread is doing: somebody may cancel it, and it may have a budget. Known to all code that
// runs meanwhile, in the loops of thread pools too, so that it need not be passed through every operator and kernel.
#pragma once

#include <cstdint>
#include <memory>

#include "base/budget.h"
#include "base/cancellation.h"

namespace camshaft {

class WrittenTexts;

/// From its construction on until its end the calling thread, and the threads of loops that it starts, work for one
/// call. Scopes nest: what is cancelled or over budget in an outer one is so in the inner one.
class WorkScope {
 public:
  /// Without a budget the outer scope's counts. `cancellation` must outlive the scope.
  explicit WorkScope(const Cancellation& cancellation, std::shared_ptr<Budget> budget = nullptr,
                     WrittenTexts* texts = nullptr);
  ~WorkScope();
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

  /// What the calling thread works for; null: nobody's.
  static const WorkScope* current();

  bool cancelled() const;
  const std::shared_ptr<Budget>& budget() const;
  /// Of the innermost operator that writes texts; null: none does.
  WrittenTexts* texts() const;

 private:
  const Cancellation* cancellation_;
  std::shared_ptr<Budget> budget_;
  WrittenTexts* texts_;
  const WorkScope* outer_;
};

/// On a worker: works for the scope of the thread that started the loop.
class AdoptedScope {
 public:
  explicit AdoptedScope(const WorkScope* scope);
  ~AdoptedScope();
  AdoptedScope(const AdoptedScope&) = delete;
  AdoptedScope& operator=(const AdoptedScope&) = delete;

 private:
  const WorkScope* before_;
};

/// Throws Error(cancelled) once what the calling thread works for was cancelled. Some nanoseconds: for loops whose
/// bodies take a microsecond and more, so often that a second never passes without.
void cancellation_point();

/// A cancellation_point() once in a while, for loops whose bodies are short.
class PacedCancellation {
 public:
  /// After so many elements, or whatever takes some nanoseconds.
  void did(int64_t elements) {
    if ((done_ += elements) < pace) return;
    done_ = 0;
    cancellation_point();
  }

 private:
  static constexpr int64_t pace = 1 << 16;
  int64_t done_ = 0;
};

/// That of the calling thread's scope; null: there is none.
std::shared_ptr<Budget> current_budget();

}  // namespace camshaft

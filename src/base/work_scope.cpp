#include "base/work_scope.h"

#include <utility>

#include "base/cancellation_points.h"
#include "base/error.h"

namespace camshaft {

namespace {

// Two words, so that a library opened while the program runs finds room for them.
thread_local const WorkScope* current_scope = nullptr;
thread_local int64_t points_passed = 0;

}  // namespace

WorkScope::WorkScope(const Cancellation& cancellation, std::shared_ptr<Budget> budget, WrittenTexts* texts)
    : cancellation_(&cancellation),
      budget_(std::move(budget)),
      texts_(texts),
      outer_(std::exchange(current_scope, this)) {}

WorkScope::~WorkScope() {
  current_scope = outer_;
}

const WorkScope* WorkScope::current() {
  return current_scope;
}

bool WorkScope::cancelled() const {
  for (const WorkScope* scope = this; scope; scope = scope->outer_)
    if (scope->cancellation_->cancelled()) return true;
  return false;
}

const std::shared_ptr<Budget>& WorkScope::budget() const {
  const WorkScope* scope = this;
  while (!scope->budget_ && scope->outer_) scope = scope->outer_;
  return scope->budget_;
}

WrittenTexts* WorkScope::texts() const {
  const WorkScope* scope = this;
  while (!scope->texts_ && scope->outer_) scope = scope->outer_;
  return scope->texts_;
}

AdoptedScope::AdoptedScope(const WorkScope* scope) : before_(std::exchange(current_scope, scope)) {}

AdoptedScope::~AdoptedScope() {
  current_scope = before_;
}

void cancellation_point() {
  ++points_passed;
  if (current_scope && current_scope->cancelled()) throw Error(ErrorCode::cancelled, "cancelled while computing");
}

int64_t cancellation_points_passed() {
  return points_passed;
}

std::shared_ptr<Budget> current_budget() {
  return current_scope ? current_scope->budget() : nullptr;
}

}  // namespace camshaft

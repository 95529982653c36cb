#include "base/written_texts.h"

namespace camshaft {

namespace {

// What cancels is asked by the scopes around.
const Cancellation& by_nobody() {
  static const Cancellation never;
  return never;
}

}  // namespace

WrittenTexts::WrittenTexts() : budget_(current_budget()), scope_(by_nobody(), nullptr, this) {}

WrittenTexts::~WrittenTexts() {
  if (budget_) budget_->give_back_bytes(taken_.load(std::memory_order_relaxed));
}

void WrittenTexts::take(size_t bytes) {
  if (!budget_) return;
  budget_->take_bytes(bytes);
  taken_.fetch_add(bytes, std::memory_order_relaxed);
}

void count_text(size_t characters) {
  constexpr size_t long_text = 4096;  // whose copy takes longer than looking at a flag
  const size_t bytes = bytes_of_text(characters);
  if (bytes == 0) return;
  if (bytes >= long_text) cancellation_point();
  const WorkScope* scope = WorkScope::current();
  if (WrittenTexts* texts = scope ? scope->texts() : nullptr) texts->take(bytes);
}

}  // namespace camshaft

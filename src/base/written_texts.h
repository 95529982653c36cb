// What an operator's texts hold, counted before they are written.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

#include "base/budget.h"
#include "base/work_scope.h"

namespace camshaft {

/// What a text of so many characters takes beyond its object: nothing while it fits into that, else what glibc
/// allocates, which of texts of 200 bytes is a tenth more than these.
inline size_t bytes_of_text(size_t characters) {
  constexpr size_t held_within = 15, step = 16, header = 8;
  return characters <= held_within ? 0 : (characters + 1 + header + step - 1) / step * step;
}

/// While it lives, write_text() and count_text() of the calling thread, and of the loops that it starts, take from the
/// budget of the thread's WorkScope what texts hold beyond their objects. At its end that is given back: a result's
/// texts are counted as a whole then (Tensor::claim_texts).
class WrittenTexts {
 public:
  WrittenTexts();
  ~WrittenTexts();
  WrittenTexts(const WrittenTexts&) = delete;
  WrittenTexts& operator=(const WrittenTexts&) = delete;

  /// Throws Error(out_of_memory).
  void take(size_t bytes);

 private:
  const std::shared_ptr<Budget> budget_;
  std::atomic<size_t> taken_{0};
  const WorkScope scope_;
};

/// Of a text of so many characters that is about to be made. Throws Error(out_of_memory), or Error(cancelled) before a
/// long one.
void count_text(size_t characters);

/// to = from.
inline void write_text(std::string& to, const std::string& from) {
  if (from.size() <= to.capacity()) {
    to = from;
    return;
  }
  count_text(from.size());
  to = std::string(from);  // as long as it is counted: to grow is to double
}

/// The same for all kinds of elements.
template <class T>
void write_element(T& to, const T& from) {
  if constexpr (std::is_same_v<T, std::string>) {
    write_text(to, from);
  } else {
    to = from;
  }
}

}  // namespace camshaft

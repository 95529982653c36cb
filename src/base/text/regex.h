// Regular expressions without backtracking: time linear in the text, memory bounded by the pattern.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace camshaft {

/// The regular subset of RE2's syntax over code points: literals, ., classes (also \d \w \s and [:alpha:] kinds),
/// groups (also named and not capturing, with the flags i, m, s), |, * + ? {n,m} and their lazy forms, ^ $ \A \z \b \B,
/// and escapes. Matching is by Thompson's simulation of the automaton ("Regular Expression Search Algorithm", 1968).
class Regex {
 public:
  /// Throws Error(invalid_argument) naming the place for what is malformed or not supported (\p, \C, flag U), and for
  /// patterns that expand to more than 100,000 states.
  explicit Regex(std::string_view pattern);

  size_t states() const { return steps_.size(); }
  /// Takes the time of the text's length times the states, at most.
  bool matches_all(const std::vector<char32_t>& text) const;
  /// The leftmost match that begins at or after `from`, the longest there: [begin, end).
  std::optional<std::pair<size_t, size_t>> find(const std::vector<char32_t>& text, size_t from) const;

  enum class Kind : uint8_t { set, split, jump, assertion, accept };
  enum class Assertion : uint8_t { begin_text, end_text, begin_line, end_line, word_boundary, no_word_boundary };
  struct Set {
    std::vector<std::pair<char32_t, char32_t>> ranges;  ///< inclusive
    bool is_negated = false;
    bool ignores_case = false;
    bool contains(char32_t c) const;
  };
  struct Step {
    Kind kind = Kind::accept;
    Assertion assertion = Assertion::begin_text;
    int32_t next = -1, other = -1;  ///< split has two ways on
    int32_t set = -1;
  };

 private:
  struct Threads;
  std::optional<size_t> longest(const std::vector<char32_t>& text, size_t from) const;
  void follow(int32_t start, const std::vector<char32_t>& text, size_t at, Threads& threads) const;

  std::vector<Step> steps_;
  std::vector<Set> sets_;
  int32_t start_ = 0;
};

}  // namespace camshaft

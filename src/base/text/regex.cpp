#include "base/text/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/text/regex_tree.h"
#include "base/text/unicode.h"
#include "base/work_scope.h"

namespace camshaft {

namespace {

using Kind = Regex::Kind;
using Assertion = Regex::Assertion;
using Set = Regex::Set;
using Step = Regex::Step;
using Node = RegexNode;

constexpr size_t most_steps = 100000;

/// Steps are built from the end, so that each knows where it goes on.
class Compiler {
 public:
  Compiler(std::vector<Step>& steps, std::vector<Set>& sets) : steps_(steps), sets_(sets) {}

  /// Steps that match `node` and go on to step `next`; returns where they begin.
  int32_t add(const Node& node, int32_t next) {
    if (++visits_ > 10 * most_steps) fail();  // counted repeats of nothing make no steps
    switch (node.type) {
      case Node::Type::empty:
        return next;
      case Node::Type::set:
        return push({Kind::set, {}, next, -1, set_of(node)});
      case Node::Type::assertion:
        return push({Kind::assertion, node.assertion, next, -1, -1});
      case Node::Type::sequence:
        for (size_t i = node.parts.size(); i-- > 0;) next = add(node.parts[i], next);
        return next;
      case Node::Type::choice: {
        int32_t start = add(node.parts.back(), next);
        for (size_t i = node.parts.size() - 1; i-- > 0;)
          start = push({Kind::split, {}, add(node.parts[i], next), start, -1});
        return start;
      }
      case Node::Type::repeat:
        break;
    }
    const Node& part = node.parts[0];
    if (node.most < 0) {
      const int32_t loop = push({Kind::split, {}, -1, next, -1});
      const int32_t body = add(part, loop);
      steps_[static_cast<size_t>(loop)].next = body;
      next = loop;
    } else {
      const int32_t end = next;
      for (int i = node.least; i < node.most; ++i) next = push({Kind::split, {}, add(part, next), end, -1});
    }
    for (int i = 0; i < node.least; ++i) next = add(part, next);
    return next;
  }

  // Repeats of a set share it: a long class repeated a thousand times would fill the memory.
  int32_t set_of(const Node& node) {
    const auto [at, is_new] = known_sets_.try_emplace(&node, static_cast<int32_t>(sets_.size()));
    if (is_new) sets_.push_back(node.set);
    return at->second;
  }

  int32_t push(Step step) {
    if (steps_.size() >= most_steps) fail();
    steps_.push_back(step);
    return static_cast<int32_t>(steps_.size()) - 1;
  }

 private:
  [[noreturn]] static void fail() {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the regular expression needs more than {} states", most_steps));
  }

  std::vector<Step>& steps_;
  std::vector<Set>& sets_;
  std::unordered_map<const Node*, int32_t> known_sets_;
  size_t visits_ = 0;
};

bool holds(Assertion assertion, const std::vector<char32_t>& text, size_t at) {
  const bool before = at > 0 && is_word_character(text[at - 1]),
             behind = at < text.size() && is_word_character(text[at]);
  switch (assertion) {
    case Assertion::begin_text:
      return at == 0;
    case Assertion::end_text:
      return at == text.size();
    case Assertion::begin_line:
      return at == 0 || text[at - 1] == '\n';
    case Assertion::end_line:
      return at == text.size() || text[at] == '\n';
    case Assertion::word_boundary:
      return before != behind;
    case Assertion::no_word_boundary:
      break;
  }
  return before == behind;
}

}  // namespace

/// The states that the automaton is in. `mark` tells whether a state has been reached at this character.
struct Regex::Threads {
  explicit Threads(size_t states) : mark(states, 0) {}
  std::vector<uint32_t> mark;
  uint32_t stamp = 0;
  std::vector<int32_t> waiting;  // for a character
  std::vector<int32_t> stack;
  bool accepts = false;

  void clear() {
    if (++stamp == 0) {
      std::fill(mark.begin(), mark.end(), 0);
      stamp = 1;
    }
    waiting.clear();
    accepts = false;
  }
};

bool Regex::Set::contains(char32_t c) const {
  const auto has = [&](char32_t x) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const auto& r) { return x >= r.first && x <= r.second; });
  };
  return (has(c) || (ignores_case && (has(to_lower(c)) || has(to_upper(c))))) != is_negated;
}

Regex::Regex(std::string_view pattern) {
  const Node tree = parse_regex(pattern);
  Compiler compiler(steps_, sets_);
  const int32_t end = compiler.push({});
  start_ = compiler.add(tree, end);
}

void Regex::follow(int32_t start, const std::vector<char32_t>& text, size_t at, Threads& threads) const {
  threads.stack.push_back(start);
  while (!threads.stack.empty()) {
    const int32_t s = threads.stack.back();
    threads.stack.pop_back();
    uint32_t& mark = threads.mark[static_cast<size_t>(s)];
    if (mark == threads.stamp) continue;
    mark = threads.stamp;
    const Step& step = steps_[static_cast<size_t>(s)];
    switch (step.kind) {
      case Kind::set:
        threads.waiting.push_back(s);
        break;
      case Kind::split:
        threads.stack.push_back(step.other);
        threads.stack.push_back(step.next);
        break;
      case Kind::jump:
        threads.stack.push_back(step.next);
        break;
      case Kind::assertion:
        if (holds(step.assertion, text, at)) threads.stack.push_back(step.next);
        break;
      case Kind::accept:
        threads.accepts = true;
        break;
    }
  }
}

std::optional<size_t> Regex::longest(const std::vector<char32_t>& text, size_t from) const {
  Threads now(steps_.size()), then(steps_.size());
  now.clear();
  follow(start_, text, from, now);
  std::optional<size_t> end;
  if (now.accepts) end = from;
  PacedCancellation cancellation;
  for (size_t at = from; at < text.size() && !now.waiting.empty(); ++at) {
    cancellation.did(static_cast<int64_t>(now.waiting.size()));
    then.clear();
    for (const int32_t s : now.waiting) {
      const Step& step = steps_[static_cast<size_t>(s)];
      if (sets_[static_cast<size_t>(step.set)].contains(text[at])) follow(step.next, text, at + 1, then);
    }
    if (then.accepts) end = at + 1;
    std::swap(now, then);
  }
  return end;
}

bool Regex::matches_all(const std::vector<char32_t>& text) const {
  return longest(text, 0) == text.size();
}

std::optional<std::pair<size_t, size_t>> Regex::find(const std::vector<char32_t>& text, size_t from) const {
  for (size_t begin = from; begin <= text.size(); ++begin)
    if (const auto end = longest(text, begin)) return std::pair(begin, *end);
  return std::nullopt;
}

}  // namespace camshaft

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/regex_tree.h"
#include "base/text/unicode.h"

namespace camshaft {

namespace {

using Assertion = Regex::Assertion;
using Set = Regex::Set;
using Node = RegexNode;

constexpr int deepest_nesting = 200;
constexpr int most_repeats = 1000;  // as in RE2

struct Flags {
  bool ignore_case = false, multi_line = false, dot_all = false;
};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(decode_utf8(pattern)) {}

  Node parse() {
    Flags flags;
    Node node = choice(flags, 0);
    if (at_ < text_.size()) fail("an unmatched ')'");
    return node;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::invalid_argument, fmt::format("the regular expression has {} at character {}", what, at_));
  }
  bool more() const { return at_ < text_.size(); }
  char32_t peek() const { return more() ? text_[at_] : 0; }
  bool take(char32_t c) {
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view word) {
    if (text_.size() - at_ < word.size() ||
        !std::equal(word.begin(), word.end(), text_.begin() + static_cast<std::ptrdiff_t>(at_)))
      return false;
    at_ += word.size();
    return true;
  }

  Node choice(Flags& flags, int depth) {
    if (depth > deepest_nesting) fail("too many nested groups");
    Node out;
    out.type = Node::Type::choice;
    do out.parts.push_back(sequence(flags, depth));
    while (take('|'));
    return out.parts.size() == 1 ? std::move(out.parts[0]) : out;
  }

  Node sequence(Flags& flags, int depth) {
    Node out;
    out.type = Node::Type::sequence;
    while (more() && peek() != '|' && peek() != ')') {
      if (take(U"\\Q")) {
        while (more() && !take(U"\\E")) out.parts.push_back(literal(text_[at_++], flags));
        continue;
      }
      Node part = atom(flags, depth);
      for (int chained = 0; more() && repeat(part);)
        if (++chained > 8) fail("a repetition of a repetition of a repetition");
      out.parts.push_back(std::move(part));
    }
    return out;
  }

  bool repeat(Node& part) {
    int least = 0, most = -1;
    const size_t before = at_;
    if (take('*')) {
    } else if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (take('{')) {
      const auto low = number();
      bool is_valid = low.has_value();
      least = most = low.value_or(0);
      if (is_valid && take(',')) most = peek() == '}' ? -1 : number().value_or(-2);
      if (!is_valid || most == -2 || !take('}')) {  // then it is a brace
        at_ = before;
        return false;
      }
      if (least > most_repeats || most > most_repeats || (most >= 0 && most < least)) fail("a bad count");
    } else {
      return false;
    }
    take('?');  // what matches does not depend on greed
    Node out;
    out.type = Node::Type::repeat;
    out.least = least;
    out.most = most;
    out.parts.push_back(std::move(part));
    part = std::move(out);
    return true;
  }

  std::optional<int> number() {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    int value = 0;
    while (peek() >= '0' && peek() <= '9') value = std::min(value * 10 + static_cast<int>(text_[at_++] - '0'), 100000);
    return value;
  }

  static Node set_node(Set set) {
    Node out;
    out.type = Node::Type::set;
    out.set = std::move(set);
    return out;
  }
  static Node literal(char32_t c, const Flags& flags) { return set_node({{{c, c}}, false, flags.ignore_case}); }
  static Node asserted(Assertion assertion) {
    Node out;
    out.type = Node::Type::assertion;
    out.assertion = assertion;
    return out;
  }

  Node atom(Flags& flags, int depth) {
    if (take('(')) return group(flags, depth);
    if (take('[')) return bracket(flags);
    if (take('.')) {
      if (flags.dot_all) return set_node({{}, true, false});
      return set_node({{{'\n', '\n'}}, true, false});
    }
    if (take('^')) return asserted(flags.multi_line ? Assertion::begin_line : Assertion::begin_text);
    if (take('$')) return asserted(flags.multi_line ? Assertion::end_line : Assertion::end_text);
    if (peek() == '*' || peek() == '+' || peek() == '?') fail("nothing to repeat");
    if (take('\\')) return escape(flags);
    return literal(text_[at_++], flags);
  }

  Node group(Flags& flags, int depth) {
    Flags inner = flags;
    if (take('?')) {
      if (take(U"P<") || take('<')) {
        if (peek() == '=' || peek() == '!') fail("a look-behind, which is not regular");
        while (more() && is_word_character(peek())) ++at_;
        if (!take('>')) fail("a bad group name");
      } else {
        bool value = true;
        while (more() && peek() != ':' && peek() != ')') {
          const char32_t c = text_[at_++];
          if (c == '-') {
            value = false;
          } else if (c == 'i') {
            inner.ignore_case = value;
          } else if (c == 'm') {
            inner.multi_line = value;
          } else if (c == 's') {
            inner.dot_all = value;
          } else {
            --at_;
            fail("a group that is not supported");
          }
        }
        if (take(')')) {  // flags for the rest of the group around
          flags = inner;
          return {};
        }
        if (!take(':')) fail("an unfinished group");
      }
    }
    Node out = choice(inner, depth + 1);
    if (!take(')')) fail("a group without ')'");
    return out;
  }

  static void add_named(Set& set, char32_t name) {
    switch (name) {
      case 'd':
        set.ranges.insert(set.ranges.end(), {{'0', '9'}});
        break;
      case 'w':
        set.ranges.insert(set.ranges.end(), {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}});
        break;
      default:  // s
        set.ranges.insert(set.ranges.end(), {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}});
    }
  }
  static void add_complement(Set& set, char32_t name) {
    Set positive;
    add_named(positive, name);
    char32_t next = 0;
    std::sort(positive.ranges.begin(), positive.ranges.end());
    for (const auto& [low, high] : positive.ranges) {
      if (low > next) set.ranges.emplace_back(next, low - 1);
      next = high + 1;
    }
    set.ranges.emplace_back(next, broken_byte + 0xFF);
  }
  static bool is_class_name(char32_t c) { return c == 'd' || c == 'w' || c == 's'; }
  static bool is_negated_name(char32_t c) { return c == 'D' || c == 'W' || c == 'S'; }

  Node escape(const Flags& flags) {
    if (!more()) fail("a '\\' at its end");
    const char32_t c = peek();
    if (is_class_name(c) || is_negated_name(c)) {
      ++at_;
      Set set;
      add_named(set, is_class_name(c) ? c : c + 32);
      set.is_negated = !is_class_name(c);
      return set_node(std::move(set));
    }
    if (take('b')) return asserted(Assertion::word_boundary);
    if (take('B')) return asserted(Assertion::no_word_boundary);
    if (take('A')) return asserted(Assertion::begin_text);
    if (take('z')) return asserted(Assertion::end_text);
    return literal(escaped_character(), flags);
  }

  char32_t hex(size_t digits) {
    char32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char32_t c = peek();
      const bool is_digit = c >= '0' && c <= '9', is_letter = (c | 32) >= 'a' && (c | 32) <= 'f';
      if (!is_digit && !is_letter) fail("a bad hexadecimal escape");
      value = value * 16 + (is_digit ? c - '0' : (c | 32) - 'a' + 10);
      ++at_;
    }
    return value;
  }

  // Behind the backslash.
  char32_t escaped_character() {
    if (!more()) fail("a '\\' at its end");
    const char32_t c = text_[at_++];
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'x': {
        if (!take('{')) return hex(2);
        size_t digits = 0;
        while (at_ + digits < text_.size() && text_[at_ + digits] != '}') ++digits;
        if (digits < 1 || digits > 6) fail("a bad hexadecimal escape");
        const char32_t value = hex(digits);
        if (!take('}')) fail("a bad hexadecimal escape");
        return value;
      }
      case '0': {
        char32_t value = 0;
        for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; ++i) value = value * 8 + (text_[at_++] - '0');
        return value;
      }
      default:
        break;
    }
    if (c < 0x80 && is_word_character(c)) {
      --at_;
      fail("an escape that is not supported");
    }
    return c;
  }

  void posix_class(Set& set) {
    constexpr std::pair<std::u32string_view, std::u32string_view> classes[] = {
        {U"alpha:]", U"AZaz"},   {U"digit:]", U"09"},       {U"alnum:]", U"09AZaz"},  {U"upper:]", U"AZ"},
        {U"lower:]", U"az"},     {U"xdigit:]", U"09AFaf"},  {U"word:]", U"09AZaz__"}, {U"space:]", U"\t\r  "},
        {U"blank:]", U"\t\t  "}, {U"punct:]", U"!/:@[`{~"}, {U"graph:]", U"!~"},      {U"print:]", U" ~"}};
    for (const auto& [name, ranges] : classes)
      if (take(name)) {
        for (size_t i = 0; i < ranges.size(); i += 2) set.ranges.emplace_back(ranges[i], ranges[i + 1]);
        return;
      }
    fail("a class that is not supported");
  }

  Node bracket(const Flags& flags) {
    Set set;
    set.ignores_case = flags.ignore_case;
    set.is_negated = take('^');
    bool is_first = true;
    while (is_first || peek() != ']') {
      if (!more()) fail("a class without ']'");
      is_first = false;
      if (take(U"[:")) {
        posix_class(set);
        continue;
      }
      if (peek() == '\\' && at_ + 1 < text_.size() &&
          (is_class_name(text_[at_ + 1]) || is_negated_name(text_[at_ + 1]))) {
        const char32_t name = text_[at_ + 1];
        at_ += 2;
        is_class_name(name) ? add_named(set, name) : add_complement(set, name + 32);
        continue;
      }
      const char32_t low = take('\\') ? escaped_character() : text_[at_++];
      char32_t high = low;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        high = take('\\') ? escaped_character() : text_[at_++];
        if (high < low) fail("a range that runs backwards");
      }
      set.ranges.emplace_back(low, high);
    }
    ++at_;
    return set_node(std::move(set));
  }

  std::vector<char32_t> text_;
  size_t at_ = 0;
};

}  // namespace

RegexNode parse_regex(std::string_view pattern) {
  return Parser(pattern).parse();
}

}  // namespace camshaft

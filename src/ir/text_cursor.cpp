#include "ir/text_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ir/container_type.h"
#include "ir/text_internal.h"

namespace camshaft::text_detail {

size_t Cursor::at() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else {
      break;
    }
  }
  return at_;
}

bool Cursor::take(char c) {
  if (peek() != c || done()) return false;
  ++at_;
  return true;
}

void Cursor::expect(char c, const char* where) {
  if (!take(c)) fail(fmt::format("expected '{}' {}", c, where));
}

bool Cursor::take_word(std::string_view word) {
  const size_t start = at();
  if (name() == word) return true;
  at_ = start;
  return false;
}

std::string_view Cursor::name() {
  const size_t start = at();
  while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

std::string_view Cursor::expect_name(const char* what) {
  const std::string_view text = name();
  if (text.empty()) fail(fmt::format("expected {}", what));
  return text;
}

std::string_view Cursor::word() {
  const size_t start = at();
  while (at_ < text_.size() && (is_name_char(text_[at_]) || text_[at_] == '+')) ++at_;
  if (at_ < text_.size() && text_[at_] == '(' && text_.substr(start, at_ - start) == "nan") {
    const size_t end = text_.find(')', at_);
    if (end == std::string_view::npos) fail("expected ')' behind the bits of a nan");
    at_ = end + 1;
  }
  return text_.substr(start, at_ - start);
}

std::string Cursor::quoted() {
  const size_t start = at();
  expect('"', "at the start of a text");
  std::string out;
  for (;;) {
    if (at_ == text_.size()) fail("the text that starts here does not end", start);
    const char c = text_[at_++];
    if (c == '"') return out;
    out += c == '\\' ? escaped() : c;
  }
}

Dim Cursor::dim() {
  const size_t start = at();
  int open = 0;
  bool inside_name = false;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (inside_name) {
      if (c == '\\') ++at_;
      inside_name = c != '\'';
      continue;
    }
    if (c == '\'') inside_name = true;
    if (c == '(') ++open;
    if (open == 0 && (c == ',' || c == ')' || c == ']')) break;
    if (c == ')') --open;
  }
  at_ = std::min(at_, text_.size());
  try {
    return Dim::parse(text_.substr(start, at_ - start));
  } catch (const Error& e) {
    fail(e.what(), start);
  }
}

Shape Cursor::dims(char close) {
  Shape shape;
  if (take(close)) return shape;
  do shape.push_back(take('?') ? unknown_dim() : dim());
  while (take(','));
  expect(close, "behind the dims");
  return shape;
}

void Cursor::fail(const std::string& what, size_t where) const {
  const std::string_view before = text_.substr(0, where);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n');
  const size_t column = start == std::string_view::npos ? where + 1 : where - start;
  std::string found;
  if (where < text_.size()) {
    const std::string_view rest = text_.substr(where, 24);
    found = fmt::format(", at '{}'", rest.substr(0, rest.find('\n')));
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("graph text, line {}:{}: {}{}", line, column, what, found));
}

char Cursor::escaped() {
  const size_t backslash = at_ - 1;
  const char c = at_ < text_.size() ? text_[at_++] : '\0';
  switch (c) {
    case '"':
    case '\\':
      return c;
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'x': {
      unsigned code = 0;
      const char* digits = text_.data() + at_;
      if (at_ + 2 <= text_.size() && std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
        at_ += 2;
        return static_cast<char>(code);
      }
      break;
    }
    default:
      break;
  }
  fail("expected \\\", \\\\, \\n, \\t or \\x and two hexadecimal digits", backslash);
}

}  // namespace camshaft::text_detail

// What the parser of graphs is made of: the cursor that all parts of the grammar share, fields and types.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace camshaft::text_detail {

constexpr int max_nesting = 32;

/// Where the text stands, and the tokens that all parts of the grammar share. Spaces and comments before a token are
/// passed over.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  size_t at();
  bool done() { return at() == text_.size(); }
  char peek() { return done() ? '\0' : text_[at_]; }
  bool take(char c);
  void expect(char c, const char* where);
  /// A word that is followed by something else than more of it.
  bool take_word(std::string_view word);
  /// Letters, digits and _ . / @ -; empty if there are none.
  std::string_view name();
  std::string_view expect_name(const char* what);
  /// A number as it stands: a name that may also hold a '+' behind the exponent.
  std::string_view word();
  bool at_quote() { return peek() == '"'; }
  std::string quoted();
  std::string text_or_name(const char* what) { return at_quote() ? quoted() : std::string(expect_name(what)); }

  /// A dim reaches to the next ',' or closing bracket outside of its own brackets and quotes.
  Dim dim();
  /// Dims up to the closing bracket, which is taken.
  Shape dims(char close);

  /// Throws Error(invalid_argument) that names the line and column and what is found there.
  [[noreturn]] void fail(const std::string& what) { fail(what, at()); }
  [[noreturn]] void fail(const std::string& what, size_t where) const;

 private:
  char escaped();

  std::string_view text_;
  size_t at_ = 0;
};

/// The fields of an operator, behind the opening brace, which is taken; takes the closing one.
Fields parse_fields(Cursor& cursor);

/// The type of a value: not one that is malformed.
TensorType parse_value_type(Cursor& cursor);

}  // namespace camshaft::text_detail

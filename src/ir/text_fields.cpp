// The fields of operators in the text of a graph.
#include <limits>

#include "ir/text_cursor.h"
#include "ir/text_internal.h"

namespace camshaft::text_detail {

namespace {

bool is_real(std::string_view word) {
  if (word.starts_with('-')) word.remove_prefix(1);
  if (word == "inf" || word == "nan") return true;
  return !word.empty() && (word[0] == '.' || (word[0] >= '0' && word[0] <= '9')) &&
         word.find_first_of(".eE") != std::string_view::npos;
}

class FieldParser {
 public:
  explicit FieldParser(Cursor& cursor) : cursor_(cursor) {}

  /// Behind the opening brace, which is taken; takes the closing one.
  Fields fields() {
    Fields out;
    if (cursor_.take('}')) return out;
    do {
      std::string name(cursor_.expect_name("the name of a field"));
      cursor_.expect('=', "behind the name of a field");
      out.emplace_back(std::move(name), field());
    } while (cursor_.take(','));
    cursor_.expect('}', "or ',' behind a field");
    return out;
  }

 private:
  FieldValue field() {
    if (cursor_.at_quote()) return cursor_.quoted();
    if (cursor_.take('[')) return list();
    const size_t start = cursor_.at();
    const std::string_view word = cursor_.word();
    if (word.empty()) cursor_.fail("expected the value of a field");
    if (word == "true" || word == "false") return word == "true";
    if (word == "dim" && cursor_.take('(')) {
      Dim d = cursor_.dim();
      cursor_.expect(')', "behind a dim");
      return d;
    }
    if (word == "shape" && cursor_.take('(')) return cursor_.dims(')');
    if (is_real(word)) return real(word, start);
    if (word[0] == '-' || (word[0] >= '0' && word[0] <= '9')) return integer(word, start);
    return std::string(word);
  }

  FieldValue list() {
    std::vector<std::string> texts;
    std::vector<std::pair<std::string_view, size_t>> words;
    bool reals = false;
    if (cursor_.take(']')) return std::vector<int64_t>{};
    do {
      const size_t start = cursor_.at();
      if (cursor_.at_quote()) {
        texts.push_back(cursor_.quoted());
      } else {
        words.emplace_back(cursor_.word(), start);
        reals = reals || is_real(words.back().first);
      }
      if (!texts.empty() && !words.empty()) cursor_.fail("a list holds either texts or numbers", start);
    } while (cursor_.take(','));
    cursor_.expect(']', "or ',' behind an element");
    if (!texts.empty()) return texts;
    if (reals) {
      std::vector<double> out;
      out.reserve(words.size());
      for (const auto& [word, start] : words) out.push_back(real(word, start));
      return out;
    }
    std::vector<int64_t> out;
    out.reserve(words.size());
    for (const auto& [word, start] : words) out.push_back(integer(word, start));
    return out;
  }

  double real(std::string_view word, size_t start) {
    Tensor value(DType::f64, {});
    if (word == "-nan") return -std::numeric_limits<double>::quiet_NaN();
    if (!set_element(value, 0, word)) cursor_.fail("expected a number", start);
    return *value.as<double>();
  }
  int64_t integer(std::string_view word, size_t start) {
    Tensor value(DType::i64, {});
    if (!set_element(value, 0, word)) cursor_.fail("expected an integer of 64 bits", start);
    return *value.as<int64_t>();
  }

  Cursor& cursor_;
};

}  // namespace

Fields parse_fields(Cursor& cursor) {
  return FieldParser(cursor).fields();
}

}  // namespace camshaft::text_detail

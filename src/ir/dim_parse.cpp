// Text to dims. The text may come from an engine file: all of it is checked, and its cost is bounded.
#include "ir/dim_internal.h"

namespace camshaft {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Recursive descent over
//   sum = ['-'] product (('+'|'-') product)*      product = factor ('*' factor)*
//   factor = number | name | 'quoted name' | function(sum, sum) | (sum)
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}
  Dim parse() {
    if (text_.size() > max_dim_text) fail("it is longer than " + std::to_string(max_dim_text) + " characters");
    Dim d = sum(0);
    skip();
    if (at_ != text_.size()) fail("unexpected text");
    return d;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::invalid_argument, "not a dimension expression: '" + std::string(text_.substr(0, 200)) +
                                                 "': " + what + " at column " + std::to_string(at_ + 1));
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // Adds up in one go: adding one by one is quadratic in the length.
  Dim sum(int depth) {
    if (depth > max_dim_depth) fail("nested too deep");
    Dim first = product(take('-'), depth);
    bool negative = take('-');
    if (!negative && !take('+')) return first;  // as mostly: sums of one took a tenth of loading
    std::vector<DimBuilder::Term> terms = DimBuilder::all_terms(first);
    do {
      for (auto& t : DimBuilder::all_terms(product(negative, depth))) terms.push_back(std::move(t));
      negative = take('-');
    } while (negative || take('+'));
    return DimBuilder::make(0, std::move(terms));
  }
  Dim product(bool negative, int depth) {
    skip();
    const bool number_first = at_ < text_.size() && is_digit(text_[at_]);
    Dim p = number_first ? number(negative) : factor(depth);
    if (negative && !number_first) p = Dim(-1) * p;
    while (take('*')) p = p * factor(depth);
    return p;
  }
  // The sign belongs to the number: the smallest integer has no positive counterpart.
  Dim number(bool negative) {
    int64_t n = 0;
    while (at_ < text_.size() && is_digit(text_[at_])) {
      const int64_t digit = text_[at_++] - '0';
      n = dim_detail::checked_add(dim_detail::checked_mul(n, 10), negative ? -digit : digit);
    }
    return n;
  }
  Dim factor(int depth) {
    skip();
    if (at_ == text_.size()) fail("it ends early");
    if (is_digit(text_[at_])) return number(false);
    if (take('(')) {
      Dim d = sum(depth + 1);
      if (!take(')')) fail("')' is missing");
      return d;
    }
    if (take('\'')) {
      std::string name;
      while (at_ < text_.size() && text_[at_] != '\'') {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
        name += text_[at_++];
      }
      if (at_ == text_.size()) fail("the quote does not end");
      ++at_;
      return Dim::symbol(name);
    }
    const size_t start = at_;
    while (at_ < text_.size() && dim_detail::plain_name_char(text_[at_])) ++at_;
    const std::string_view name = text_.substr(start, at_ - start);
    if (name.empty()) fail("a name or number is missing");
    return take('(') ? function(name, depth) : Dim::symbol(name);
  }
  Dim function(std::string_view name, int depth) {
    if (++functions_ > max_dim_functions) fail("more than " + std::to_string(max_dim_functions) + " functions");
    const Dim a = sum(depth + 1);
    if (!take(',')) fail("',' is missing");
    const Dim b = sum(depth + 1);
    if (!take(')')) fail("')' is missing");
    if (name == "floor_div") return floor_div(a, b);
    if (name == "ceil_div") return ceil_div(a, b);
    if (name == "mod") return mod(a, b);
    if (name == "min") return min(a, b);
    if (name == "max") return max(a, b);
    if (name == "broadcast") return broadcast(a, b);
    fail("unknown function '" + std::string(name) + "'; there are floor_div, ceil_div, mod, min, max and broadcast");
  }

  std::string_view text_;
  size_t at_ = 0;
  int functions_ = 0;
};

}  // namespace

Dim Dim::parse(std::string_view text) {
  return DimParser(text).parse();
}

}  // namespace camshaft

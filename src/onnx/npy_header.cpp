#include "onnx/npy_header.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "base/error.h"

namespace camshaft::onnx {

namespace {

constexpr int max_rank = 64;  // NumPy's own limit

// Reads the literal {'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), } in any order and spacing.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  NpyHeader parse() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !has_descr) {
        skip_space();
        if (peek() == '[') refuse("holds records (several fields an element); save each field by itself");
        header.descr = quoted();
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.dims = shape();
        has_shape = true;
      } else {
        malformed();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!text_.empty() || !has_descr || !has_order || !has_shape) malformed();
    return header;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw Error(ErrorCode::io, name_ + " " + why); }
  [[noreturn]] void malformed() const { refuse("has a malformed header; it was not written by NumPy, or is damaged"); }

  char peek() const { return text_.empty() ? '\0' : text_.front(); }
  void skip_space() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_space();
    if (peek() != c || text_.empty()) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed();
  }

  std::string quoted() {
    skip_space();
    const char quote = peek();
    if (quote != '\'' && quote != '"') malformed();
    const size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) malformed();
    std::string value(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return value;
  }

  bool boolean() {
    skip_space();
    for (const std::string_view word : {std::string_view("True"), std::string_view("False")}) {
      if (text_.substr(0, word.size()) != word) continue;
      text_.remove_prefix(word.size());
      return word == "True";
    }
    malformed();
  }

  Dims shape() {
    Dims dims;
    expect('(');
    while (!accept(')')) {
      skip_space();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0 || dims.size() >= max_rank) malformed();
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      if (peek() == 'L') text_.remove_prefix(1);  // Python 2 wrote long integers like this
      dims.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return dims;
  }

  std::string_view text_;
  const std::string& name_;
};

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.substr(0, 6) != "\x93NUMPY") throw Error(ErrorCode::io, name + " is not a NumPy array (.npy)");
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned version = byte(6);
  if (version < 1 || version > 3)
    throw Error(ErrorCode::io, fmt::format("{} has version {} of NumPy's format; 1 to 3 are known", name, version));
  const size_t start = version == 1 ? 10 : 12;
  const size_t length = byte(8) | byte(9) << 8 | (version == 1 ? 0 : byte(10) << 16 | byte(11) << 24);
  if (text.size() < start || text.size() - start < length)
    throw Error(ErrorCode::io, name + " ends within its header; it is truncated");
  NpyHeader header = HeaderParser(text.substr(start, length), name).parse();
  header.size = start + length;
  return header;
}

}  // namespace camshaft::onnx

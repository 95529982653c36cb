#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "graph/container_type.h"
#include "graph/text.h"
#include "graph/text_internal.h"

namespace camshaft {

namespace {

constexpr int max_nesting = 32;

// Where the text stands, and the tokens that all parts of the grammar share.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  size_t at() {
    skip();
    return at_;
  }
  bool done() { return at() == text_.size(); }
  char peek() { return done() ? '\0' : text_[at_]; }
  bool take(char c) {
    if (peek() != c || done()) return false;
    ++at_;
    return true;
  }
  void expect(char c, const char* where) {
    if (!take(c)) fail(fmt::format("expected '{}' {}", c, where));
  }
  /// A word that is followed by something else than more of it.
  bool take_word(std::string_view word) {
    const size_t start = at();
    if (name() == word) return true;
    at_ = start;
    return false;
  }
  /// Letters, digits and _ . / @ -; empty if there are none.
  std::string_view name() {
    const size_t start = at();
    while (at_ < text_.size() && text_detail::is_name_char(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  std::string_view expect_name(const char* what) {
    const std::string_view text = name();
    if (text.empty()) fail(fmt::format("expected {}", what));
    return text;
  }
  /// A number as it stands: a name that may also hold a '+' behind the exponent.
  std::string_view word() {
    const size_t start = at();
    while (at_ < text_.size() && (text_detail::is_name_char(text_[at_]) || text_[at_] == '+')) ++at_;
    if (at_ < text_.size() && text_[at_] == '(' && text_.substr(start, at_ - start) == "nan") {
      const size_t end = text_.find(')', at_);
      if (end == std::string_view::npos) fail("expected ')' behind the bits of a nan");
      at_ = end + 1;
    }
    return text_.substr(start, at_ - start);
  }
  bool at_quote() { return peek() == '"'; }
  std::string quoted() {
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
  std::string text_or_name(const char* what) { return at_quote() ? quoted() : std::string(expect_name(what)); }

  /// A dim reaches to the next ',' or closing bracket outside of its own brackets and quotes.
  Dim dim() {
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
  /// Dims up to the closing bracket, which is taken.
  Shape dims(char close) {
    Shape shape;
    if (take(close)) return shape;
    do shape.push_back(take('?') ? unknown_dim() : dim());
    while (take(','));
    expect(close, "behind the dims");
    return shape;
  }

  [[noreturn]] void fail(const std::string& what) { fail(what, at()); }
  [[noreturn]] void fail(const std::string& what, size_t where) const {
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

 private:
  void skip() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }
  char escaped() {
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

  std::string_view text_;
  size_t at_ = 0;
};

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
    if (!text_detail::set_element(value, 0, word)) cursor_.fail("expected a number", start);
    return *value.as<double>();
  }
  int64_t integer(std::string_view word, size_t start) {
    Tensor value(DType::i64, {});
    if (!text_detail::set_element(value, 0, word)) cursor_.fail("expected an integer of 64 bits", start);
    return *value.as<int64_t>();
  }

  Cursor& cursor_;
};

DType dtype(Cursor& cursor) {
  const size_t start = cursor.at();
  const std::string_view name = cursor.expect_name("a type, such as f32[batch, 3]");
  try {
    return parse_dtype(name);
  } catch (const Error& e) {
    cursor.fail(e.what(), start);
  }
}

TensorType element_type(Cursor& cursor, int nesting) {
  TensorType type{dtype(cursor), {}};
  if (nesting > max_nesting) cursor.fail("types are nested too deep");
  if (type.dtype == DType::map) {
    cursor.expect('<', "behind 'map'");
    const DType keys = dtype(cursor);
    cursor.expect(',', "behind the dtype of the keys");
    type = map_of(keys, dtype(cursor));
    cursor.expect('>', "behind the dtype of the values");
    return type;
  }
  if (type.dtype != DType::optional) {
    cursor.expect('[', "behind the dtype");
    type.ranked = !cursor.take('*');
    if (type.ranked) {
      type.shape = cursor.dims(']');
    } else {
      cursor.expect(']', "behind '*'");
    }
  }
  if (is_container(type.dtype)) {
    cursor.expect('<', "before the type of what a container holds");
    type.elements.push_back(element_type(cursor, nesting + 1));
    cursor.expect('>', "behind the type of what a container holds");
  }
  return type;
}

TensorType value_type(Cursor& cursor) {
  const size_t start = cursor.at();
  TensorType type = element_type(cursor, 0);
  if (const std::string wrong = malformed(type); !wrong.empty()) cursor.fail(wrong, start);
  return type;
}

class GraphParser {
 public:
  GraphParser(Cursor& cursor, const OpRegistry& registry, int nesting)
      : cursor_(cursor), registry_(registry), nesting_(nesting) {}

  Graph parse() {
    if (nesting_ > max_nesting) cursor_.fail(fmt::format("graphs are nested more than {} deep", max_nesting));
    if (!cursor_.take_word("graph")) cursor_.fail("expected 'graph'");
    if (cursor_.peek() != '(') graph_.name = cursor_.text_or_name("the graph's name or '('");
    cursor_.expect('(', "before the graph's inputs");
    if (!cursor_.take(')')) {
      do input();
      while (cursor_.take(','));
      cursor_.expect(')', "or ',' behind an input");
    }
    cursor_.expect('{', "before the graph's nodes");
    while (!cursor_.take_word("return")) {
      if (cursor_.take_word("const")) {
        constant();
      } else if (cursor_.peek() == '%') {
        node();
      } else {
        cursor_.fail("expected a node (%…), 'const' or 'return'");
      }
    }
    if (cursor_.peek() != '}') {
      do output();
      while (cursor_.take(','));
    }
    cursor_.expect('}', "at the end of the graph");
    return std::move(graph_);
  }

 private:
  // A value's name and where it stands.
  struct Name {
    std::string text;
    size_t at;
  };

  Name value_name() {
    const size_t start = cursor_.at();
    cursor_.expect('%', "before the name of a value");
    return {cursor_.text_or_name("the name of a value"), start};
  }
  Name new_name() {
    Name name = value_name();
    if (ids_.count(name.text)) cursor_.fail(fmt::format("there is a value %{} already", name.text), name.at);
    return name;
  }
  ValueId known_value() {
    const Name name = value_name();
    const auto it = ids_.find(name.text);
    if (it == ids_.end()) cursor_.fail(fmt::format("value %{} is not defined before this", name.text), name.at);
    return it->second;
  }

  void input() {
    Name name = new_name();
    cursor_.expect(':', "and the type of an input");
    ids_[name.text] = graph_.add_input(name.text, value_type(cursor_));
  }

  void constant() {
    Name name = new_name();
    cursor_.expect(':', "and the type of a constant");
    const size_t start = cursor_.at();
    const TensorType declared = value_type(cursor_);
    if (is_container(declared.dtype)) cursor_.fail("a container cannot be a constant", start);
    Dims dims;
    for (const Dim& d : declared.shape) {
      if (!d.is_constant()) cursor_.fail("a constant has constant dims", start);
      dims.push_back(d.value());
    }
    cursor_.expect('=', "before the elements of a constant");
    Tensor tensor = located(start, [&] { return Tensor(declared.dtype, std::move(dims)); });
    ids_[name.text] = graph_.add_constant(name.text, elements(std::move(tensor)));
  }

  Tensor elements(Tensor tensor) {
    const size_t start = cursor_.at();
    if (cursor_.peek() == '<') cursor_.fail("the elements of this constant were not printed");
    int64_t count = 0;
    if (cursor_.peek() != '[') {
      // One element for all.
      const bool quoted = cursor_.at_quote();
      const std::string text = element_text();
      for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, text, quoted, start);
      return tensor;
    }
    int open = 0;
    bool expects_item = true;
    do {
      if (expects_item && cursor_.take('[')) {
        ++open;
        if (!cursor_.take(']')) continue;
        --open;
        expects_item = false;
      } else if (!expects_item && cursor_.take(']')) {
        --open;
      } else if (!expects_item) {
        cursor_.expect(',', "or ']' behind an element");
        expects_item = true;
      } else {
        const size_t at = cursor_.at();
        const bool quoted = cursor_.at_quote();
        const std::string text = element_text();
        if (count < tensor.size()) set(tensor, count, text, quoted, at);
        ++count;
        expects_item = false;
      }
    } while (open > 0);
    if (count != tensor.size())
      cursor_.fail(fmt::format("expected {} elements, there are {}", tensor.size(), count), start);
    return tensor;
  }
  std::string element_text() {
    if (cursor_.at_quote()) return cursor_.quoted();
    std::string word(cursor_.word());
    if (word.empty()) cursor_.fail("expected an element");
    return word;
  }
  void set(Tensor& tensor, int64_t index, const std::string& text, bool quoted, size_t at) {
    const bool is_string = tensor.dtype() == DType::string;
    if (is_string != quoted || !text_detail::set_element(tensor, index, text))
      cursor_.fail(is_string ? "expected a text in quotes" : fmt::format("expected a {}", to_string(tensor.dtype())),
                   at);
  }

  void node() {
    const size_t start = cursor_.at();
    std::vector<std::string> names;
    std::vector<std::pair<std::optional<TensorType>, size_t>> types;
    do {
      Name name = new_name();
      if (std::find(names.begin(), names.end(), name.text) != names.end())
        cursor_.fail(fmt::format("the node has two results %{}", name.text), name.at);
      names.push_back(std::move(name.text));
      const bool typed = cursor_.take(':');
      const size_t at = cursor_.at();
      types.emplace_back(typed ? std::optional(value_type(cursor_)) : std::nullopt, at);
    } while (cursor_.take(','));
    cursor_.expect('=', "and an operator behind a node's results");

    const size_t op_start = cursor_.at();
    const std::string op_name(cursor_.expect_name("the name of an operator"));
    Fields fields;
    if (cursor_.take('{')) fields = FieldParser(cursor_).fields();
    const Op op = located(op_start, [&] { return registry_.make(op_name, fields); });

    std::vector<ValueId> inputs;
    cursor_.expect('(', "before the operator's inputs");
    if (!cursor_.take(')')) {
      do inputs.push_back(cursor_.take('-') ? no_value : known_value());
      while (cursor_.take(','));
      cursor_.expect(')', "or ',' behind an input of the operator");
    }
    std::vector<std::string> sources;
    if (cursor_.take_word("from")) {
      do sources.push_back(cursor_.text_or_name("the name of a source"));
      while (cursor_.take(','));
    }
    std::vector<Graph> bodies;
    while (cursor_.peek() == 'g') bodies.push_back(GraphParser(cursor_, registry_, nesting_ + 1).parse());

    const std::vector<ValueId> ids = located(
        start, [&] { return graph_.add_node(op, std::move(inputs), names, std::move(sources), std::move(bodies)); });
    for (size_t i = 0; i < ids.size(); ++i) {
      ids_[names[i]] = ids[i];
      const auto& [declared, at] = types[i];
      if (declared && *declared != graph_.type(ids[i]))
        cursor_.fail(fmt::format("%{} is {} by the shape rule, not {}", names[i], to_string(graph_.type(ids[i])),
                                 to_string(*declared)),
                     at);
    }
  }

  // Errors from elsewhere get the place in the text.
  template <class F>
  auto located(size_t at, F&& make) -> decltype(make()) {
    try {
      return make();
    } catch (const Error& e) {
      cursor_.fail(e.what(), at);
    }
  }

  void output() {
    if (cursor_.peek() == '%') {
      const ValueId id = known_value();
      graph_.add_output(graph_.value(id).name, id);
      return;
    }
    const std::string name = cursor_.text_or_name("an output: %value, or name = %value");
    cursor_.expect('=', "behind the name of an output");
    graph_.add_output(name, known_value());
  }

  Cursor& cursor_;
  const OpRegistry& registry_;
  int nesting_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> ids_;
};

}  // namespace

TensorType parse_element_type(std::string_view text) {
  Cursor cursor(text);
  TensorType type = element_type(cursor, 0);
  if (!cursor.done()) cursor.fail("expected nothing behind the type");
  if (const std::string wrong = malformed_element(type); !wrong.empty()) cursor.fail(wrong, 0);
  return type;
}

Graph parse_graph(std::string_view text, const OpRegistry& registry) {
  Cursor cursor(text);
  Graph graph = GraphParser(cursor, registry, 0).parse();
  if (!cursor.done()) cursor.fail("expected nothing behind the graph");
  return graph;
}

}  // namespace camshaft

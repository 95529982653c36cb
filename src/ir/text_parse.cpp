#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "ir/container_type.h"
#include "ir/text.h"
#include "ir/text_cursor.h"
#include "ir/text_internal.h"

namespace camshaft {

namespace {

using text_detail::Cursor;
using text_detail::parse_value_type;

class GraphParser {
 public:
  GraphParser(Cursor& cursor, const OpRegistry& registry, int nesting)
      : cursor_(cursor), registry_(registry), nesting_(nesting) {}

  Graph parse() {
    if (nesting_ > text_detail::max_nesting)
      cursor_.fail(fmt::format("graphs are nested more than {} deep", text_detail::max_nesting));
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
    ids_[name.text] = graph_.add_input(name.text, parse_value_type(cursor_));
  }

  void constant() {
    Name name = new_name();
    cursor_.expect(':', "and the type of a constant");
    const size_t start = cursor_.at();
    const TensorType declared = parse_value_type(cursor_);
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
      types.emplace_back(typed ? std::optional(parse_value_type(cursor_)) : std::nullopt, at);
    } while (cursor_.take(','));
    cursor_.expect('=', "and an operator behind a node's results");

    const size_t op_start = cursor_.at();
    const std::string op_name(cursor_.expect_name("the name of an operator"));
    Fields fields;
    if (cursor_.take('{')) fields = text_detail::parse_fields(cursor_);
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

Graph parse_graph(std::string_view text, const OpRegistry& registry) {
  Cursor cursor(text);
  Graph graph = GraphParser(cursor, registry, 0).parse();
  if (!cursor.done()) cursor.fail("expected nothing behind the graph");
  return graph;
}

}  // namespace camshaft

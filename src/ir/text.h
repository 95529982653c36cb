// Text form of graphs: printed for people, parsed by tests.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace camshaft {

struct PrintOptions {
  /// Constants above this many elements print as `<bytes and hash>`, which does not parse back; -1 prints all.
  /// Constants whose elements are all the same print as that one element, whatever their size.
  int64_t max_constant_elements = 16;
  bool sources = false;
};

///   graph "name" (%x: f32[batch, 3]) {
///     const %w: f32[3, 4] = [0.5, …]
///     %y: f32[batch, 4] = matmul {transpose_b=false} (%x, %w) from "MatMul_3"
///     return "logits" = %y
///   }
///
/// The grammar; `#` comments reach to the end of the line, white space separates and is otherwise free:
///
///   graph     = "graph" [text] "(" [input {"," input}] ")" "{" {statement} "}"
///   input     = value ":" type
///   type      = dtype "[" [dim {"," dim}] "]"                   dim: see Dim::parse
///             | "seq[" dim "]<" element ">" | "opt<" element ">" | "map<" dtype "," dtype ">"
///   element   = type | dtype "[*]"                              of any rank; "?" for a dim: elements may differ in it
///   statement = "const" value ":" type "=" (element | list)     one element fills the tensor
///             | result {"," result} "=" operator [fields] "(" [operand {"," operand}] ")"
///               ["from" text {"," text}] {graph}                the names of the sources; the bodies
///             | "return" [output {"," output}]                  comes last
///   result    = value [":" type]                                the shape rule gives the type; one given is checked
///   operand   = value | "-"                                     - for an omitted optional input
///   output    = [text "="] value                                the output has the value's name if none is given
///   list      = "[" [(element | list) {"," (element | list)}] "]"   row-major; nesting is for the reader alone
///   element   = integer | real | "inf" | "nan" | "nan(0x" bits ")" | "true" | "false" | text
///   fields    = "{" [name "=" field {"," name "=" field}] "}"
///   field     = integer | real | "true" | "false" | text | name | "[" … "]" | "dim(" dim ")" | "shape(" {dim} ")"
///   value     = "%" name | "%" text                             a name has letters, digits and _ . / @ -
///   text      = '"' … '"' with \" \\ \n \t \xHH | name
///
/// Fields that are absent keep their defaults. A field with a point, an exponent, inf or nan is a real; a bare name is
/// the same as its text. Values are named once and before they are used.
std::string print(const Graph& graph, const PrintOptions& options = {});

/// The type of what a container holds, as to_string() prints it. Throws Error(invalid_argument).
TensorType parse_element_type(std::string_view text);

/// The inverse of print(): what is printed with all constants (and sources) parses to an equal() graph.
/// Throws Error(invalid_argument) with line and column, for text that is malformed and for nodes whose shape rule
/// fails.
Graph parse_graph(std::string_view text, const OpRegistry& registry);

}  // namespace camshaft

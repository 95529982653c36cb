// The types of values in the text of a graph.
#include "ir/container_type.h"
#include "ir/text.h"
#include "ir/text_cursor.h"

namespace camshaft {

namespace text_detail {

namespace {

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

}  // namespace

TensorType parse_value_type(Cursor& cursor) {
  const size_t start = cursor.at();
  TensorType type = element_type(cursor, 0);
  if (const std::string wrong = malformed(type); !wrong.empty()) cursor.fail(wrong, start);
  return type;
}

}  // namespace text_detail

TensorType parse_element_type(std::string_view text) {
  text_detail::Cursor cursor(text);
  TensorType type = text_detail::element_type(cursor, 0);
  if (!cursor.done()) cursor.fail("expected nothing behind the type");
  if (const std::string wrong = malformed_element(type); !wrong.empty()) cursor.fail(wrong, 0);
  return type;
}

}  // namespace camshaft

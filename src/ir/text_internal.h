// What the printer and the parser of graphs share.
#pragma once

#include <string>
#include <string_view>

#include "ir/tensor.h"

namespace camshaft::text_detail {

/// Letters, digits and _ . / @ -
bool is_name_char(char c);
/// "\"…\"" with escapes.
std::string quote(std::string_view text);
/// The shortest text that reads back to the same bits.
std::string element(const Tensor& tensor, int64_t index);
/// Writes one element; false if the text is none of that dtype. Strings come without quotes and escapes.
bool set_element(Tensor& tensor, int64_t index, std::string_view text);
/// All elements have the same bits (the same text), and there are at least two.
bool is_uniform(const Tensor& tensor);

}  // namespace camshaft::text_detail

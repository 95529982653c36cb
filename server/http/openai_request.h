// The body of a call of OpenAI's interface, as far as the server reads it: the model does the rest.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace camshaft::server {

/// Bytes of a body: a prompt of 10^6 tokens' numbers has 8 MB, and gets an answer that says what is wrong with it.
inline constexpr size_t longest_openai_body = 16u << 20;

/// The field "model" of an object; nothing where there is none, or null. Reads the whole text, of which nothing is
/// kept: what passes is an object of JSON that no reader takes much memory for. Throws ServerError(invalid_argument)
/// for what is no JSON or no object, for nesting deeper than 100, for more than 2^16 lists and objects or 2^21 values,
/// and for a "model" that is no text.
std::optional<std::string> model_of_openai(std::string_view json);

/// Bytes of a body with a sound: OpenAI's 25 MiB for the file, and the fields beside it.
inline constexpr size_t longest_openai_form = 26u << 20;

/// The part "model" of a body of multipart/form-data; nothing where there is none. Throws
/// ServerError(invalid_argument) for what form_parts() refuses.
std::optional<std::string> model_of_form(std::string_view body, std::string_view content_type);

}  // namespace camshaft::server

#include "server/http/multipart_form.h"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/rfc7230.hpp>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

namespace beast = boost::beast;

constexpr size_t most_parts = 64, longest_header = size_t{8} << 10, longest_boundary = 70;

[[noreturn]] void refuse_form(const std::string& message) {
  throw ServerError(StatusCode::invalid_argument, "the body is no multipart/form-data: " + message);
}

// The value of a parameter as `; name=value` or `; name="value"` has it, behind the first word of a header.
std::string parameter_of(std::string_view header, std::string_view name) {
  const size_t begin = header.find(';');
  if (begin == std::string_view::npos) return {};
  for (const auto& [key, value] : beast::http::param_list(header.substr(begin)))
    if (beast::iequals(key, name)) return std::string(value);
  return {};
}

std::string boundary_of(std::string_view content_type) {
  constexpr std::string_view form = "multipart/form-data";
  const std::string_view kind = content_type.substr(0, content_type.find(';'));
  const std::string_view trimmed = kind.substr(0, kind.find_last_not_of(" \t") + 1);
  if (!beast::iequals(trimmed, form)) refuse_form("its Content-Type is another");
  std::string boundary = parameter_of(content_type, "boundary");
  if (boundary.empty() || boundary.size() > longest_boundary)
    refuse_form("its Content-Type has no boundary of 1 to " + std::to_string(longest_boundary) + " characters");
  return boundary;
}

std::string name_of_part(std::string_view header) {
  constexpr std::string_view wanted = "content-disposition:";
  while (!header.empty()) {
    const size_t end = header.find("\r\n");
    const std::string_view line = header.substr(0, end);
    if (line.size() > wanted.size() && beast::iequals(line.substr(0, wanted.size()), wanted))
      return parameter_of(line, "name");
    if (end == std::string_view::npos) break;
    header.remove_prefix(end + 2);
  }
  return {};
}

}  // namespace

std::vector<FormPart> form_parts(std::string_view body, std::string_view content_type) {
  const std::string delimiter = "\r\n--" + boundary_of(content_type);
  const std::string_view first = std::string_view(delimiter).substr(2);
  size_t at = body.starts_with(first) ? first.size() : body.find(delimiter);
  if (at == std::string_view::npos) refuse_form("its boundary is not in it");
  if (!body.starts_with(first)) at += delimiter.size();
  std::vector<FormPart> parts;
  while (!body.substr(at).starts_with("--")) {
    at = body.find_first_not_of(" \t", at);
    if (at == std::string_view::npos || !body.substr(at).starts_with("\r\n"))
      refuse_form("no line ends behind a boundary");
    const size_t header = at + 2, end = body.substr(header, longest_header + 4).find("\r\n\r\n");
    if (end == std::string_view::npos) refuse_form("a part's header has no end, or more than 8 KiB");
    const size_t content = header + end + 4;
    // What is empty may have the line's end of its header alone in front of the boundary.
    const size_t next = body.find(delimiter, content - 2);
    if (next == std::string_view::npos) refuse_form("it does not end with its boundary");
    if (parts.size() == most_parts) refuse_form("it has more than " + std::to_string(most_parts) + " parts");
    const size_t size = next < content ? 0 : next - content;
    parts.push_back({name_of_part(body.substr(header, end)), body.substr(content, size)});
    if (parts.back().name.empty()) refuse_form("a part has no name");
    at = next + delimiter.size();
  }
  return parts;
}

}  // namespace camshaft::server

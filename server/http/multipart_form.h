// Bodies of multipart/form-data, RFC 7578.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace camshaft::server {

struct FormPart {
  std::string name;
  std::string_view content;  ///< of the body
};

/// The parts of a body, in their order. Throws ServerError(invalid_argument) for another Content-Type, a boundary that
/// RFC 2046 does not allow, a body that does not end with it, a part without a name, more than 64 parts, and a part's
/// header of more than 8 KiB.
std::vector<FormPart> form_parts(std::string_view body, std::string_view content_type);

}  // namespace camshaft::server

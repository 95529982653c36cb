// Whether a text is UTF-8, as protobuf's strings must be.
#pragma once

#include <string_view>

namespace camshaft::server {

/// Without surrogates, overlong forms and what lies beyond U+10FFFF (RFC 3629).
bool is_utf8(std::string_view text);

}  // namespace camshaft::server

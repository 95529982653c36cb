// Bytes within texts: files that clients bring with a load.
#pragma once

#include <string>
#include <string_view>

namespace camshaft::server {

/// The bytes of a text in base64 (RFC 4648, with or without '=' at its end; line ends are skipped). Throws
/// ServerError(invalid_argument) for other characters, and for a length that no bytes have.
std::string decode_base64(std::string_view text);

}  // namespace camshaft::server

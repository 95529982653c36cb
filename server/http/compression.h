// Bodies in gzip and deflate.
#pragma once

#include <string>
#include <string_view>

#include "server/http/body_pool.h"
#include "server/http/exchange.h"

namespace camshaft::server {

enum class Encoding { identity, gzip, deflate };

/// Of "Content-Encoding". Throws ServerError(invalid_argument) for others.
Encoding content_encoding(std::string_view header);
/// Of "Accept-Encoding", with weights: the one that the client likes best, identity where it says nothing.
Encoding accepted_encoding(std::string_view header);

/// Throws ServerError(invalid_argument) for what is no such stream, is cut off or has bytes behind it, and as soon as
/// it holds more than `limit` bytes: no more memory than twice that is taken.
Body decompressed(std::span<const std::byte> data, Encoding encoding, uint64_t limit, BodyPool& pool);
/// Replaces text and tensors by their compressed form, with the header that says so.
void compress(HttpReply& reply, Encoding encoding);

}  // namespace camshaft::server

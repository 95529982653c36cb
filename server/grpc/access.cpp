#include "server/grpc/access.h"

#include <re2/re2.h>

#include <string>
#include <string_view>

#include "server/grpc/infer_request.h"
#include "server/grpc/utf8.h"

namespace camshaft::server {
namespace {

std::string_view text(const grpc::string_ref& value) {
  return {value.data(), value.size()};
}

std::unique_ptr<const re2::RE2> compile_forwarded(const std::string& pattern) {
  if (pattern.empty()) return nullptr;
  auto made = std::make_unique<const re2::RE2>(pattern, re2::RE2::Quiet);
  if (!made->ok()) {
    throw ServerError(StatusCode::invalid_argument,
                      "--grpc-header-forward-pattern: '" + pattern + "' is no regular expression: " + made->error());
  }
  return made;
}

}  // namespace

Access::Access(const GrpcOptions& options)
    : restricted_(options.restricted),
      tokens_(options.token_file.empty() ? BearerTokens() : BearerTokens(options.token_file)),
      forwarded_(compile_forwarded(options.forward_headers)) {}
Access::~Access() = default;

grpc::Status Access::check(const grpc::ServerContext& context, Api api) {
  if (const auto* key = restricted_.key(api)) {
    const auto found = context.client_metadata().find(key->first);
    if (found == context.client_metadata().end() || !same_secret(text(found->second), key->second)) {
      return {grpc::StatusCode::UNAVAILABLE, "This protocol is restricted, expecting header '" + key->first + "'"};
    }
  }
  if (tokens_.required() && api != Api::health) {
    const auto found = context.client_metadata().find("authorization");
    if (found == context.client_metadata().end() || !tokens_.accepts(text(found->second))) {
      return {grpc::StatusCode::UNAUTHENTICATED,
              "the call needs metadata 'authorization: Bearer <a token of the server>'"};
    }
  }
  return grpc::Status::OK;
}

void Access::forward(const grpc::ServerContext& context, Parameters& parameters) const {
  if (!forwarded_) return;
  for (const auto& [key, value] : context.client_metadata()) {
    const std::string name(text(key));
    if (!re2::RE2::PartialMatch(name, *forwarded_)) continue;
    if (reserved_parameter(name)) {
      throw ServerError(StatusCode::invalid_argument,
                        "Header '" + name + "' is reserved for Triton usage and cannot be forwarded.");
    }
    if (!is_utf8(text(value)))
      throw ServerError(StatusCode::invalid_argument, "Header '" + name + "' is not UTF-8 and cannot be forwarded.");
    parameters.insert_or_assign(name, std::string(text(value)));
  }
}

}  // namespace camshaft::server

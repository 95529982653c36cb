// What the path of a request means.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/core/restricted_api.h"

namespace camshaft::server {

enum class RouteKind {
  live,
  ready,
  server_metadata,
  model_metadata,
  model_ready,
  model_config,
  model_statistics,
  infer,
  generate,
  generate_stream,
  trace_setting,
  repository_index,
  repository_load,
  repository_unload,
  system_shared_memory,
  cuda_shared_memory,
  logging,
  status_page,
  status_data,
  openai_models,
  openai_model,
  openai_call,
};

struct Route {
  RouteKind kind;
  Api api;
  bool get = true, post = false;         ///< the methods that it has
  std::string model = {}, version = {};  ///< empty: all models, the version that the model's policy takes
  std::string repository = {};           ///< that the path names
  /// Of shared memory: "status", "register", "unregister"; of OpenAI's calls what is asked for: "chat/completions".
  std::string region = {}, action = {};
};

/// Whether a path is one of OpenAI's interface, whose errors have a form of their own.
bool is_openai_path(std::string_view target);

/// Nothing for a path that means nothing. Throws ServerError(invalid_argument) for '%' without two digits behind it,
/// and for names with '/', '\', a control character, or that are "." or "..".
std::optional<Route> parse_route(std::string_view target);

/// A text with %XX replaced. Throws ServerError(invalid_argument).
std::string percent_decoded(std::string_view text);

}  // namespace camshaft::server

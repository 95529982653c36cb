#include "server/http/route.h"

#include <vector>

namespace camshaft::server {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string name_of(std::string_view part) {
  std::string name = percent_decoded(part);
  bool plain = name != "." && name != "..";
  for (const char c : name) plain &= c != '/' && c != '\\' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  if (!plain) throw ServerError(StatusCode::invalid_argument, "a name in the path has characters that no name has");
  return name;
}

bool is_number(std::string_view text) {
  for (const char c : text)
    if (c < '0' || c > '9') return false;
  return !text.empty() && text.size() < 20;
}

std::optional<Route> route_of_model(const std::vector<std::string_view>& parts) {
  if (parts.size() < 3 || parts[2].empty()) return std::nullopt;
  if (parts.size() == 3 && parts[2] == "stats") return Route{RouteKind::model_statistics, Api::statistics};
  Route route{RouteKind::model_metadata, Api::metadata};
  route.model = name_of(parts[2]);
  size_t next = 3;
  if (parts.size() > next + 1 && parts[next] == "versions") {
    if (!is_number(parts[next + 1])) return std::nullopt;
    route.version = parts[next + 1];
    next += 2;
  }
  const auto is = [&](RouteKind kind, Api api, bool get, bool post) {
    route.kind = kind, route.api = api, route.get = get, route.post = post;
    return route;
  };
  if (parts.size() == next) return route;
  const std::string_view word = parts[next];
  if (parts.size() == next + 2 && word == "trace" && parts[next + 1] == "setting")
    return is(RouteKind::trace_setting, Api::trace, true, true);
  if (parts.size() != next + 1) return std::nullopt;
  if (word == "infer") return is(RouteKind::infer, Api::inference, false, true);
  if (word == "generate") return is(RouteKind::generate, Api::inference, false, true);
  if (word == "generate_stream") return is(RouteKind::generate_stream, Api::inference, false, true);
  if (word == "ready") return is(RouteKind::model_ready, Api::health, true, false);
  if (word == "config") return is(RouteKind::model_config, Api::model_config, true, false);
  if (word == "stats") return is(RouteKind::model_statistics, Api::statistics, true, false);
  return std::nullopt;
}

// /v2/repository[/NAME]/index, /v2/repository[/NAME]/models/MODEL/load|unload
std::optional<Route> route_of_repository(const std::vector<std::string_view>& parts) {
  Route route{RouteKind::repository_index, Api::model_repository, false, true};
  size_t next = 2;
  const bool named = parts.size() == 4 || parts.size() == 6;
  if (named) route.repository = name_of(parts[next++]);
  if (parts.size() == next + 1 && parts[next] == "index") return route;
  if (parts.size() != next + 3 || parts[next] != "models" || parts[next + 1].empty()) return std::nullopt;
  route.model = name_of(parts[next + 1]);
  if (parts[next + 2] == "load")
    route.kind = RouteKind::repository_load;
  else if (parts[next + 2] == "unload")
    route.kind = RouteKind::repository_unload;
  else
    return std::nullopt;
  return route;
}

// /v2/systemsharedmemory[/region/NAME]/status|register|unregister
std::optional<Route> route_of_memory(const std::vector<std::string_view>& parts, RouteKind kind) {
  Route route{kind, Api::shared_memory};
  size_t next = 2;
  if (parts.size() == 5 && parts[2] == "region") {
    route.region = name_of(parts[3]);
    next = 4;
  }
  if (parts.size() != next + 1) return std::nullopt;
  route.action = parts[next];
  route.get = route.action == "status";
  route.post = !route.get;
  if (route.action != "status" && route.action != "register" && route.action != "unregister") return std::nullopt;
  return route;
}

// /v1/models[/NAME], /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings,
// /v1/audio/transcriptions, /v1/audio/translations: OpenAI's; /v1/load_lora_adapter and /v1/unload_lora_adapter: vLLM's
std::optional<Route> route_of_openai(const std::vector<std::string_view>& parts) {
  if (parts.size() == 2 && parts[1] == "models") return Route{RouteKind::openai_models, Api::metadata};
  if (parts.size() == 3 && parts[1] == "models" && !parts[2].empty()) {
    Route route{RouteKind::openai_model, Api::metadata};
    route.model = name_of(parts[2]);
    return route;
  }
  Route route{RouteKind::openai_call, Api::inference, false, true};
  if (parts.size() == 3 && parts[1] == "chat" && parts[2] == "completions")
    route.action = "chat/completions";
  else if (parts.size() == 3 && parts[1] == "audio" && (parts[2] == "transcriptions" || parts[2] == "translations"))
    route.action = "audio/" + std::string(parts[2]);
  else if (parts.size() == 2 && (parts[1] == "completions" || parts[1] == "responses" || parts[1] == "embeddings" ||
                                 parts[1] == "load_lora_adapter" || parts[1] == "unload_lora_adapter"))
    route.action = parts[1];
  else
    return std::nullopt;
  return route;
}

}  // namespace

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0)
      throw ServerError(StatusCode::invalid_argument, "'%' in the path has no two digits behind it");
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

bool is_openai_path(std::string_view target) {
  return target.starts_with("/v1/");
}

std::optional<Route> parse_route(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (target == "/") return Route{RouteKind::status_page, Api::statistics};
  if (target == "/status.json") return Route{RouteKind::status_data, Api::statistics};
  if (target.substr(0, 3) != "/v2" && !is_openai_path(target)) return std::nullopt;
  std::vector<std::string_view> parts;  // "v2", …
  for (size_t begin = 1; begin <= target.size();) {
    const size_t end = std::min(target.find('/', begin), target.size());
    parts.push_back(target.substr(begin, end - begin));
    begin = end + 1;
  }
  if (parts.size() > 1 && parts.back().empty()) parts.pop_back();  // a '/' at the end
  if (parts[0] == "v1") return route_of_openai(parts);
  if (parts[0] != "v2") return std::nullopt;
  if (parts.size() == 1) return Route{RouteKind::server_metadata, Api::metadata};
  if (parts[1] == "health" && parts.size() == 3 && parts[2] == "live") return Route{RouteKind::live, Api::health};
  if (parts[1] == "health" && parts.size() == 3 && parts[2] == "ready") return Route{RouteKind::ready, Api::health};
  if (parts[1] == "models") return route_of_model(parts);
  if (parts[1] == "repository") return route_of_repository(parts);
  if (parts[1] == "systemsharedmemory") return route_of_memory(parts, RouteKind::system_shared_memory);
  if (parts[1] == "cudasharedmemory") return route_of_memory(parts, RouteKind::cuda_shared_memory);
  if (parts[1] == "logging" && parts.size() == 2) return Route{RouteKind::logging, Api::logging, true, true};
  if (parts[1] == "trace" && parts.size() == 3 && parts[2] == "setting")
    return Route{RouteKind::trace_setting, Api::trace, true, true};
  return std::nullopt;
}

}  // namespace camshaft::server

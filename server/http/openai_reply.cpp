#include "server/http/openai_reply.h"

#include <nlohmann/json.hpp>

#include "server/http/http_status.h"
#include "server/http/openai_adapters.h"

namespace camshaft::server {

namespace {

using nlohmann::ordered_json;

std::string dumped(const ordered_json& document) {
  return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

const char* type_of(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

ordered_json model_json(const std::string& name) {
  return {{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "camshaft"}};
}

ServerError no_such_model(const std::string& name) {
  return {StatusCode::not_found, "The model '" + name + "' does not exist: GET /v1/models lists those that do"};
}

}  // namespace

HttpReply openai_error(int status, const std::string& message, const std::string& param, const std::string& code) {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? ordered_json() : ordered_json(text); };
  HttpReply reply;
  reply.status = status;
  reply.text = dumped({{"error",
                        {{"message", message},
                         {"type", type_of(status)},
                         {"param", text_or_null(param)},
                         {"code", text_or_null(code)}}}});
  if (status == 503) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

HttpReply openai_error(const Status& status) {
  const bool no_model = status.code == StatusCode::not_found;
  return openai_error(http_status(status.code), status.message, no_model ? "model" : "",
                      no_model ? "model_not_found" : "");
}

HttpReply as_openai_error(HttpReply reply) {
  const auto own = nlohmann::json::parse(reply.text, nullptr, false);
  const std::string message = own.is_object() ? own.value("error", "") : reply.text;
  HttpReply made = openai_error(reply.status, message, "", reply.status == 401 ? "invalid_api_key" : "");
  made.headers = std::move(reply.headers);
  return made;
}

bool is_language_model(const Model& model) {
  return model.config().backend() == "llm";
}

HttpReply openai_models(Server& server) {
  ordered_json list = ordered_json::array();
  std::string last;
  for (const std::shared_ptr<Model>& model : server.models().all()) {
    if (!is_language_model(*model) || model->name() == last) continue;  // versions of one are behind one another
    last = model->name();
    if (const auto own = models_of(server, *server.models().find(last, "")); own && !own->empty())
      list.insert(list.end(), own->begin(), own->end());
    else
      list.push_back(model_json(last));
  }
  HttpReply reply;
  reply.text = dumped({{"object", "list"}, {"data", std::move(list)}});
  return reply;
}

HttpReply openai_model(Server& server, const std::string& name) {
  const std::shared_ptr<Model> model = find_language_model(server, name);
  HttpReply reply;
  reply.text = dumped(model_json(model->name()));
  if (const auto own = models_of(server, *model))
    for (const ordered_json& entry : *own)
      if (entry.is_object() && entry.value("id", "") == name) reply.text = dumped(entry);
  return reply;
}

std::shared_ptr<Model> find_language_model(Server& server, const std::optional<std::string>& name) {
  std::shared_ptr<Model> model = loaded_language_model(server, name);
  if (!model) model = model_with_adapter(server, *name);
  if (!model) throw no_such_model(*name);
  return model;
}

std::shared_ptr<Model> loaded_language_model(Server& server, const std::optional<std::string>& name) {
  if (name) {
    std::shared_ptr<Model> model;
    try {
      model = server.models().find(*name, "");
    } catch (const ServerError& failure) {
      if (failure.code() != StatusCode::not_found) throw;
      return nullptr;
    }
    if (!is_language_model(*model)) throw no_such_model(*name);
    return model;
  }
  std::shared_ptr<Model> only;
  for (const std::shared_ptr<Model>& model : server.models().all()) {
    if (!is_language_model(*model)) continue;
    if (only && only->name() != model->name())
      throw ServerError(StatusCode::not_found, "There are several models: name one in the field 'model'");
    only = model;
  }
  if (!only) throw ServerError(StatusCode::not_found, "There is no language model");
  return server.models().find(only->name(), "");
}

}  // namespace camshaft::server

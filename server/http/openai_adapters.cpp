#include "server/http/openai_adapters.h"

#include <chrono>
#include <future>
#include <utility>

#include "server/core/text_tensor.h"
#include "server/http/openai_reply.h"

namespace camshaft::server {

namespace {

constexpr std::chrono::seconds longest_wait(5);

std::string text_of_first(const Response& response) {
  if (!response.status.ok() || response.empty || response.outputs.empty()) return {};
  const std::span<const std::byte> text = response.outputs.front().data.span;
  if (text.size() < sizeof(uint32_t)) return {};
  return {reinterpret_cast<const char*>(text.data()) + sizeof(uint32_t), text.size() - sizeof(uint32_t)};
}

// What a model answers to an operation that takes nothing; empty where it does not.
std::string answer_of(Server& server, const Model& model, const char* operation) {
  Request request;
  request.model = model.name();
  request.version = model.version();
  request.timeline.received = Clock::now();
  request.inputs.push_back({"request", DType::string, {1}, write_text("{}")});
  request.parameters["operation"] = operation;
  const auto answered = std::make_shared<std::promise<std::string>>();
  std::future<std::string> answer = answered->get_future();
  server.infer(std::move(request), [answered, told = std::make_shared<bool>(false)](Response response) {
    if (!std::exchange(*told, true)) answered->set_value(text_of_first(response));
  });
  if (answer.wait_for(longest_wait) != std::future_status::ready) return {};
  return answer.get();
}

}  // namespace

std::optional<nlohmann::ordered_json> models_of(Server& server, const Model& model) {
  const std::string answer = answer_of(server, model, "models");
  if (answer.empty()) return std::nullopt;
  auto list = nlohmann::ordered_json::parse(answer, nullptr, false);
  return list.is_array() ? std::move(list) : nlohmann::ordered_json::array();
}

std::shared_ptr<Model> model_with_adapter(Server& server, const std::string& name) {
  std::string last, silent;
  for (const std::shared_ptr<Model>& model : server.models().all()) {
    if (!is_language_model(*model) || model->name() == last) continue;
    last = model->name();
    const std::shared_ptr<Model> newest = server.models().find(last, "");
    const auto list = models_of(server, *newest);
    if (!list) {
      silent = last;
      continue;
    }
    for (const auto& entry : *list)
      if (entry.is_object() && entry.value("id", "") == name) return newest;
  }
  if (!silent.empty())
    throw ServerError(StatusCode::unavailable,
                      "The model '" + silent + "' does not say which adapters it has: try again later");
  return nullptr;
}

}  // namespace camshaft::server

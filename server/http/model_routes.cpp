#include "server/http/model_routes.h"

#include "server/core/base64.h"
#include "server/core/data_type.h"
#include "server/http/http_status.h"
#include "server/http/json_document.h"

namespace camshaft::server {

namespace {

using nlohmann::ordered_json;

HttpReply json_reply(const ordered_json& document) {
  HttpReply reply;
  reply.text = document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  return reply;
}

HttpReply empty_reply() {
  HttpReply reply;
  reply.content_type.clear();
  return reply;
}

template <class Tensors>
ordered_json tensors_json(const Tensors& tensors, bool batched) {
  ordered_json list = ordered_json::array();
  for (const auto& tensor : tensors) {
    ordered_json shape = ordered_json::array();
    if (batched) shape.push_back(-1);
    for (const int64_t size : tensor.dims()) shape.push_back(size);
    list.push_back({{"name", tensor.name()},
                    {"datatype", protocol_name(parse_config_type(inference::DataType_Name(tensor.data_type())))},
                    {"shape", std::move(shape)}});
  }
  return list;
}

ordered_json duration_json(const DurationStatistic& duration) {
  return {{"count", duration.count}, {"ns", duration.ns}};
}

ordered_json statistics_json(Model& model) {
  const StatisticsSnapshot all = model.statistics().snapshot();
  ordered_json batches = ordered_json::array();
  for (const auto& [size, batch] : all.batches)
    batches.push_back({{"batch_size", size},
                       {"compute_input", duration_json(batch.compute_input)},
                       {"compute_infer", duration_json(batch.compute_infer)},
                       {"compute_output", duration_json(batch.compute_output)}});
  return {{"name", model.name()},
          {"version", model.version()},
          {"last_inference", all.last_inference_ms},
          {"inference_count", all.inference_count},
          {"execution_count", all.execution_count},
          {"inference_stats",
           {{"success", duration_json(all.success)},
            {"fail", duration_json(all.fail)},
            {"queue", duration_json(all.queue)},
            {"compute_input", duration_json(all.compute_input)},
            {"compute_infer", duration_json(all.compute_infer)},
            {"compute_output", duration_json(all.compute_output)},
            {"cache_hit", duration_json(all.cache_hit)},
            {"cache_miss", duration_json(all.cache_miss)}}},
          {"response_stats", ordered_json::object()},
          {"batch_stats", std::move(batches)},
          {"memory_usage", ordered_json::array()}};
}

}  // namespace

HttpReply model_ready(Server& server, const Route& route) {
  if (!server.models().is_ready(route.model, route.version)) return error_reply(400, "Model version not ready");
  return json_reply({{"name", route.model}, {"ready", true}});
}

HttpReply model_metadata(Server& server, const Route& route) {
  const std::shared_ptr<Model> model = server.models().find(route.model, route.version);
  const bool batched = model->config().max_batch_size() > 0;
  const std::vector<std::string> versions =
      route.version.empty() ? server.models().versions(route.model) : std::vector<std::string>{model->version()};
  return json_reply({{"name", model->name()},
                     {"versions", versions},
                     {"platform", model->platform()},
                     {"inputs", tensors_json(model->config().input(), batched)},
                     {"outputs", tensors_json(model->config().output(), batched)}});
}

HttpReply model_configuration(Server& server, const Route& route) {
  HttpReply reply;
  reply.text = model_config_json(server.models().find(route.model, route.version)->config());
  return reply;
}

HttpReply model_statistics(Server& server, const Route& route) {
  ordered_json list = ordered_json::array();
  for (const std::shared_ptr<Model>& model : server.models().select(route.model, route.version))
    list.push_back(statistics_json(*model));
  return json_reply({{"model_stats", std::move(list)}});
}

HttpReply repository_index(Server& server, const Route& route, std::string_view body) {
  refuse_repository_name(route.repository);
  const bool ready = truth_member(parse_document(body), "ready").value_or(false);
  ordered_json list = ordered_json::array();
  for (const IndexEntry& entry : server.models().index(ready)) {
    ordered_json item = {{"name", entry.name}};
    if (!entry.version.empty()) item["version"] = entry.version;
    if (entry.state != ModelState::unknown) item["state"] = state_name(entry.state);
    if (!entry.reason.empty()) item["reason"] = entry.reason;
    list.push_back(std::move(item));
  }
  return json_reply(list);
}

HttpReply load_model(Server& server, const Route& route, std::string_view body) {
  refuse_repository_name(route.repository);
  const nlohmann::json document = parse_document(body);
  LoadOverrides overrides;
  if (const auto parameters = document.find("parameters"); parameters != document.end() && parameters->is_object()) {
    for (const auto& [name, value] : parameters->items()) {
      if (!value.is_string())
        throw ServerError(StatusCode::invalid_argument,
                          "attempt to access JSON non-string as string: parameter '" + name + "'");
      const std::string& text = value.get_ref<const std::string&>();
      if (name == "config")
        overrides.config_json = text;
      else if (name.starts_with("file:"))
        overrides.files[name.substr(5)] = decode_base64(text);
      else
        throw ServerError(StatusCode::invalid_argument,
                          "unknown parameter '" + name + "' of a load: there are 'config' and 'file:<path>'");
    }
  }
  server.models().load(route.model, overrides);
  return empty_reply();
}

HttpReply unload_model(Server& server, const Route& route, std::string_view body) {
  refuse_repository_name(route.repository);
  const nlohmann::json document = parse_document(body);
  bool dependents = false;
  if (const auto parameters = document.find("parameters"); parameters != document.end() && parameters->is_object())
    dependents = truth_member(*parameters, "unload_dependents").value_or(false);
  server.models().unload(route.model, dependents);
  return empty_reply();
}

}  // namespace camshaft::server

#include "server/http/server_routes.h"

#include <algorithm>

#include "server/core/base64.h"
#include "server/http/http_status.h"
#include "server/http/json_document.h"

namespace camshaft::server {

namespace {

using nlohmann::ordered_json;

HttpReply document_reply(const ordered_json& document) {
  HttpReply reply;
  reply.text = document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  return reply;
}

HttpReply nothing_to_say() {
  HttpReply reply;
  reply.content_type.clear();
  return reply;
}

std::vector<std::string> setting_values(const std::string& name, const nlohmann::json& value) {
  std::vector<std::string> values;
  const auto add = [&](const nlohmann::json& one) {
    if (one.is_string())
      values.push_back(one.get<std::string>());
    else if (one.is_number_integer())
      values.push_back(one.dump());
    else
      throw ServerError(StatusCode::invalid_argument, "Unable to parse '" + name + "': it is no text");
  };
  if (value.is_null()) return values;
  if (value.is_array()) {
    for (const auto& one : value) add(one);
    if (values.empty())
      throw ServerError(StatusCode::invalid_argument, "Unable to parse '" + name + "': the list is empty");
  } else {
    add(value);
  }
  return values;
}

}  // namespace

// Triton's clients read the status alone. The protocol's document says "live" of both, KServe's client reads "ready".
HttpReply server_live(Server& server) {
  return server.live() ? document_reply({{"live", true}}) : error_reply(400, "Server not live");
}

HttpReply server_ready(Server& server) {
  return server.ready() ? document_reply({{"live", true}, {"ready", true}}) : error_reply(400, "Server not ready");
}

HttpReply server_metadata(Server& server) {
  return document_reply({{"name", server.id()}, {"version", server.version()}, {"extensions", server.extensions()}});
}

HttpReply system_shared_memory(Server& server, const Route& route, std::string_view body) {
  SharedMemory& memory = server.shared_memory();
  if (route.action == "status") {
    ordered_json list = ordered_json::array();
    for (const SharedMemory::Region& region : memory.status(route.region))
      list.push_back(
          {{"name", region.name}, {"key", region.key}, {"offset", region.offset}, {"byte_size", region.byte_size}});
    return document_reply(list);
  }
  if (route.action == "unregister") {
    memory.unregister(route.region);
    return nothing_to_say();
  }
  const nlohmann::json document = parse_document(body);
  const auto key = text_member(document, "key");
  const auto byte_size = natural_member(document, "byte_size");
  if (!key) throw ServerError(StatusCode::invalid_argument, "Shared memory register request has no 'key' field");
  if (!byte_size)
    throw ServerError(StatusCode::invalid_argument, "Shared memory register request has no 'byte_size' field");
  memory.register_region(route.region, *key, natural_member(document, "offset").value_or(0), *byte_size);
  return nothing_to_say();
}

HttpReply cuda_shared_memory(Server& server, const Route& route, std::string_view body) {
  SharedMemory& memory = server.shared_memory();
  if (route.action == "status") {
    ordered_json list = ordered_json::array();
    for (const SharedMemory::CudaRegion& region : memory.cuda_status(route.region))
      list.push_back({{"name", region.name}, {"device_id", region.device}, {"byte_size", region.byte_size}});
    return document_reply(list);
  }
  if (route.action == "unregister") {
    memory.unregister_cuda(route.region);
    return nothing_to_say();
  }
  const nlohmann::json document = parse_document(body);
  const auto handle = document.find("raw_handle");
  if (handle == document.end() || !handle->is_object())
    throw ServerError(StatusCode::invalid_argument, "Shared memory register request has no 'raw_handle' field");
  const auto encoded = text_member(*handle, "b64");
  const auto device = natural_member(document, "device_id");
  const auto byte_size = natural_member(document, "byte_size");
  if (!encoded)
    throw ServerError(StatusCode::invalid_argument,
                      "Shared memory register request has no 'b64' sub-field in its 'raw_handle' field");
  if (!device)
    throw ServerError(StatusCode::invalid_argument, "Shared memory register request has no 'device_id' field");
  if (!byte_size)
    throw ServerError(StatusCode::invalid_argument, "Shared memory register request has no 'byte_size' field");
  memory.register_cuda_region(route.region, decode_base64(*encoded),
                              static_cast<int64_t>(std::min<uint64_t>(*device, INT32_MAX)), *byte_size);
  return nothing_to_say();
}

HttpReply trace_setting(Server& server, const Route& route, bool post, std::string_view body) {
  if (!route.model.empty()) server.models().find(route.model, "");
  if (post) {
    std::map<std::string, std::vector<std::string>> settings;
    const nlohmann::json document = parse_document(body);
    for (const auto& [name, value] : document.items()) {
      if (name == "trace_file")
        throw ServerError(StatusCode::unsupported, "trace file location can not be updated through network protocol");
      settings[name] = setting_values(name, value);
    }
    server.trace().update(route.model, settings);
  }
  const TraceSettings settings = server.trace().get(route.model);
  ordered_json document = {{"trace_level", settings.level},
                           {"trace_rate", std::to_string(settings.rate)},
                           {"trace_count", std::to_string(settings.count)}};
  if (settings.mode == "triton") {
    document["log_frequency"] = std::to_string(settings.log_frequency);
    document["trace_file"] = settings.file;
  }
  document["trace_mode"] = settings.mode;
  return document_reply(document);
}

HttpReply log_settings(Server& server, bool post, std::string_view body) {
  if (post) {
    const nlohmann::json document = parse_document(body);
    LogSettings::Values values = server.log().values();
    if (const auto file = document.find("log_file"); file != document.end() && !file->is_null())
      throw ServerError(StatusCode::unsupported, "log file location can not be updated through network protocol");
    values.info = truth_member(document, "log_info").value_or(values.info);
    values.warning = truth_member(document, "log_warning").value_or(values.warning);
    values.error = truth_member(document, "log_error").value_or(values.error);
    values.verbose_level = static_cast<uint32_t>(
        std::min<uint64_t>(natural_member(document, "log_verbose_level").value_or(values.verbose_level), 9));
    values.format = text_member(document, "log_format").value_or(values.format);
    server.log().set(values);
  }
  const LogSettings::Values values = server.log().values();
  return document_reply({{"log_file", values.file},
                         {"log_info", values.info},
                         {"log_warning", values.warning},
                         {"log_error", values.error},
                         {"log_verbose_level", values.verbose_level},
                         {"log_format", values.format}});
}

}  // namespace camshaft::server

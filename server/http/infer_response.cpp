#include "server/http/infer_response.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "server/core/data_type.h"
#include "server/http/element_writer.h"
#include "server/http/http_status.h"

namespace camshaft::server {

namespace {

std::string parameter_json(const Parameter& parameter) {
  return std::visit(
      [](const auto& value) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
          return json_text(value);
        else
          return nlohmann::json(value).dump();
      },
      parameter);
}

void append_output(std::string& out, const NamedTensor& tensor, const ResponseForm& form, HttpReply& reply) {
  out.append("{\"name\":")
      .append(json_text(tensor.name))
      .append(",\"datatype\":\"")
      .append(protocol_name(tensor.dtype));
  out.append("\",\"shape\":").append(shape_text(tensor.shape));
  if (form.shared.contains(tensor.name)) {
    // The client knows where it is.
  } else if (form.all_binary || form.binary.contains(tensor.name)) {
    out.append(",\"parameters\":{\"binary_data_size\":").append(std::to_string(tensor.data.span.size())).append("}");
    if (!tensor.data.span.empty()) reply.tensors.push_back(tensor.data);
  } else {
    out += ",\"data\":[";
    append_elements(out, tensor);
    out += ']';
  }
  out += '}';
}

}  // namespace

HttpReply encode_response(const Response& response, const ResponseForm& form) {
  HttpReply reply;
  std::string& out = reply.text;
  out.reserve(512);
  out += '{';
  if (!response.id.empty()) out.append("\"id\":").append(json_text(response.id)).append(",");
  out.append("\"model_name\":").append(json_text(response.model));
  out.append(",\"model_version\":").append(json_text(response.version));
  if (!response.parameters.empty()) {
    out += ",\"parameters\":{";
    for (bool first = true; const auto& [name, value] : response.parameters) {
      out.append(first ? "" : ",").append(json_text(name)).append(":").append(parameter_json(value));
      first = false;
    }
    out += '}';
  }
  out += ",\"outputs\":[";
  for (size_t i = 0; i < response.outputs.size(); ++i) {
    if (i > 0) out += ',';
    append_output(out, response.outputs[i], form, reply);
  }
  out += "]}";
  if (!reply.tensors.empty()) {
    reply.content_type = "application/octet-stream";
    reply.headers.emplace_back("Inference-Header-Content-Length", std::to_string(out.size()));
  }
  return reply;
}

std::string encode_generated(const Response& response) {
  std::string out = "{";
  if (!response.id.empty()) out.append("\"id\":").append(json_text(response.id)).append(",");
  out.append("\"model_name\":").append(json_text(response.model));
  out.append(",\"model_version\":").append(json_text(response.version));
  for (const auto& [name, value] : response.parameters)
    out.append(",").append(json_text(name)).append(":").append(parameter_json(value));
  for (const NamedTensor& tensor : response.outputs) {
    out.append(",").append(json_text(tensor.name)).append(":");
    const bool one = element_count(tensor.shape) == 1;
    if (!one) out += '[';
    append_elements(out, tensor);
    if (!one) out += ']';
  }
  return out + "}";
}

}  // namespace camshaft::server

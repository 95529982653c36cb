#include "server/grpc/control_models.h"

#include <set>
#include <string>

#include "server/core/data_type.h"

namespace camshaft::server {
namespace {

void fill(inference::StatisticDuration& to, const DurationStatistic& from) {
  to.set_count(from.count);
  to.set_ns(from.ns);
}

void fill(inference::ModelStatistics& to, Model& model) {
  const StatisticsSnapshot from = model.statistics().snapshot();
  to.set_name(model.name());
  to.set_version(model.version());
  to.set_last_inference(from.last_inference_ms);
  to.set_inference_count(from.inference_count);
  to.set_execution_count(from.execution_count);
  inference::InferStatistics& durations = *to.mutable_inference_stats();
  fill(*durations.mutable_success(), from.success);
  fill(*durations.mutable_fail(), from.fail);
  fill(*durations.mutable_queue(), from.queue);
  fill(*durations.mutable_compute_input(), from.compute_input);
  fill(*durations.mutable_compute_infer(), from.compute_infer);
  fill(*durations.mutable_compute_output(), from.compute_output);
  fill(*durations.mutable_cache_hit(), from.cache_hit);
  fill(*durations.mutable_cache_miss(), from.cache_miss);
  for (const auto& [size, batch] : from.batches) {
    inference::InferBatchStatistics& entry = *to.add_batch_stats();
    entry.set_batch_size(size);
    fill(*entry.mutable_compute_input(), batch.compute_input);
    fill(*entry.mutable_compute_infer(), batch.compute_infer);
    fill(*entry.mutable_compute_output(), batch.compute_output);
  }
}

template <class Tensor>
void fill(inference::ModelMetadataResponse::TensorMetadata& to, const Tensor& from, bool batches) {
  to.set_name(from.name());
  to.set_datatype(std::string(protocol_name(parse_config_type(inference::DataType_Name(from.data_type())))));
  if (batches) to.add_shape(-1);
  for (const int64_t size : from.dims()) to.add_shape(size);
}

[[noreturn]] void wrong_parameter(const char* call, const std::string& name, const char* expected) {
  throw ServerError(StatusCode::invalid_argument, std::string("invalid value type for ") + call + " parameter '" +
                                                      name + "', expected " + expected + ".");
}

}  // namespace

void answer_health_check(Server& server, const grpc::health::v1::HealthCheckRequest& request,
                         grpc::health::v1::HealthCheckResponse& response) {
  const std::string& service = request.service();
  if (!service.empty() && service != inference::ModelInferRequest::descriptor()->file()->service(0)->full_name())
    throw ServerError(StatusCode::not_found, "there is no service '" + service + "'");
  response.set_status(server.ready() ? grpc::health::v1::HealthCheckResponse::SERVING
                                     : grpc::health::v1::HealthCheckResponse::NOT_SERVING);
}

void answer_server_live(Server& server, const inference::ServerLiveRequest&, inference::ServerLiveResponse& response) {
  response.set_live(server.live());
}

void answer_server_ready(Server& server, const inference::ServerReadyRequest&,
                         inference::ServerReadyResponse& response) {
  response.set_ready(server.ready());
}

void answer_server_metadata(Server& server, const inference::ServerMetadataRequest&,
                            inference::ServerMetadataResponse& response) {
  response.set_name(server.id());
  response.set_version(server.version());
  for (const std::string& extension : server.extensions()) response.add_extensions(extension);
}

void answer_model_ready(Server& server, const inference::ModelReadyRequest& request,
                        inference::ModelReadyResponse& response) {
  response.set_ready(server.models().is_ready(request.name(), request.version()));
}

void answer_model_metadata(Server& server, const inference::ModelMetadataRequest& request,
                           inference::ModelMetadataResponse& response) {
  const std::shared_ptr<Model> model = server.models().find(request.name(), request.version());
  const ModelConfig& config = model->config();
  response.set_name(model->name());
  for (const std::string& version : server.models().versions(model->name())) response.add_versions(version);
  response.set_platform(model->platform());
  const bool batches = config.max_batch_size() >= 1;
  for (const auto& input : config.input()) fill(*response.add_inputs(), input, batches);
  for (const auto& output : config.output()) fill(*response.add_outputs(), output, batches);
}

void answer_model_config(Server& server, const inference::ModelConfigRequest& request,
                         inference::ModelConfigResponse& response) {
  *response.mutable_config() = server.models().find(request.name(), request.version())->config();
}

void answer_model_statistics(Server& server, const inference::ModelStatisticsRequest& request,
                             inference::ModelStatisticsResponse& response) {
  for (const std::shared_ptr<Model>& model : server.models().select(request.name(), request.version()))
    fill(*response.add_model_stats(), *model);
}

void answer_repository_index(Server& server, const inference::RepositoryIndexRequest& request,
                             inference::RepositoryIndexResponse& response) {
  refuse_repository_name(request.repository_name());
  for (const IndexEntry& from : server.models().index(request.ready())) {
    inference::RepositoryIndexResponse::ModelIndex& to = *response.add_models();
    to.set_name(from.name);
    to.set_version(from.version);
    to.set_state(std::string(state_name(from.state)));
    to.set_reason(from.reason);
  }
}

void answer_model_load(Server& server, const inference::RepositoryModelLoadRequest& request,
                       inference::RepositoryModelLoadResponse&) {
  using Value = inference::ModelRepositoryParameter;
  refuse_repository_name(request.repository_name());
  LoadOverrides overrides;
  for (const auto& [name, value] : request.parameters()) {
    if (name == "config") {
      if (value.parameter_choice_case() != Value::kStringParam) wrong_parameter("load", name, "string_param");
      overrides.config_json = value.string_param();
    } else if (name.starts_with("file:")) {
      if (value.parameter_choice_case() != Value::kBytesParam) wrong_parameter("load", name, "bytes_param");
      overrides.files.emplace(name.substr(5), value.bytes_param());
    } else {
      throw ServerError(StatusCode::invalid_argument,
                        "unrecognized load parameter '" + name + "': there are 'config' and 'file:<version>/<file>'");
    }
  }
  server.models().load(request.model_name(), overrides);
}

void answer_model_unload(Server& server, const inference::RepositoryModelUnloadRequest& request,
                         inference::RepositoryModelUnloadResponse&) {
  using Value = inference::ModelRepositoryParameter;
  refuse_repository_name(request.repository_name());
  bool dependents = false;
  for (const auto& [name, value] : request.parameters()) {
    if (name != "unload_dependents") {
      throw ServerError(StatusCode::invalid_argument,
                        "unrecognized unload parameter '" + name + "': there is 'unload_dependents'");
    }
    if (value.parameter_choice_case() != Value::kBoolParam) wrong_parameter("unload", name, "bool_param");
    dependents = value.bool_param();
  }
  server.models().unload(request.model_name(), dependents);
}

}  // namespace camshaft::server

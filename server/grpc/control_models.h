// Answers about the server and its models. All throw ServerError.
#pragma once

#include "health.pb.h"
#include "inference.pb.h"
#include "server/core/server.h"

namespace camshaft::server {

/// SERVING while the server is ready; services that it does not have are NOT_FOUND.
void answer_health_check(Server& server, const grpc::health::v1::HealthCheckRequest& request,
                         grpc::health::v1::HealthCheckResponse& response);

void answer_server_live(Server& server, const inference::ServerLiveRequest& request,
                        inference::ServerLiveResponse& response);
void answer_server_ready(Server& server, const inference::ServerReadyRequest& request,
                         inference::ServerReadyResponse& response);
void answer_server_metadata(Server& server, const inference::ServerMetadataRequest& request,
                            inference::ServerMetadataResponse& response);

void answer_model_ready(Server& server, const inference::ModelReadyRequest& request,
                        inference::ModelReadyResponse& response);
/// Shapes begin with -1 where the model takes batches.
void answer_model_metadata(Server& server, const inference::ModelMetadataRequest& request,
                           inference::ModelMetadataResponse& response);
void answer_model_config(Server& server, const inference::ModelConfigRequest& request,
                         inference::ModelConfigResponse& response);
void answer_model_statistics(Server& server, const inference::ModelStatisticsRequest& request,
                             inference::ModelStatisticsResponse& response);

void answer_repository_index(Server& server, const inference::RepositoryIndexRequest& request,
                             inference::RepositoryIndexResponse& response);
/// Both return when it is done.
void answer_model_load(Server& server, const inference::RepositoryModelLoadRequest& request,
                       inference::RepositoryModelLoadResponse& response);
void answer_model_unload(Server& server, const inference::RepositoryModelUnloadRequest& request,
                         inference::RepositoryModelUnloadResponse& response);

}  // namespace camshaft::server

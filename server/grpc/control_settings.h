// Answers about shared memory, traces and the log. All throw ServerError.
#pragma once

#include "inference.pb.h"
#include "server/core/server.h"

namespace camshaft::server {

void answer_memory_status(Server& server, const inference::SystemSharedMemoryStatusRequest& request,
                          inference::SystemSharedMemoryStatusResponse& response);
void answer_memory_register(Server& server, const inference::SystemSharedMemoryRegisterRequest& request,
                            inference::SystemSharedMemoryRegisterResponse& response);
void answer_memory_unregister(Server& server, const inference::SystemSharedMemoryUnregisterRequest& request,
                              inference::SystemSharedMemoryUnregisterResponse& response);

void answer_cuda_memory_status(Server& server, const inference::CudaSharedMemoryStatusRequest& request,
                               inference::CudaSharedMemoryStatusResponse& response);
void answer_cuda_memory_register(Server& server, const inference::CudaSharedMemoryRegisterRequest& request,
                                 inference::CudaSharedMemoryRegisterResponse& response);
void answer_cuda_memory_unregister(Server& server, const inference::CudaSharedMemoryUnregisterRequest& request,
                                   inference::CudaSharedMemoryUnregisterResponse& response);

void answer_trace_setting(Server& server, const inference::TraceSettingRequest& request,
                          inference::TraceSettingResponse& response);
void answer_log_settings(Server& server, const inference::LogSettingsRequest& request,
                         inference::LogSettingsResponse& response);

}  // namespace camshaft::server

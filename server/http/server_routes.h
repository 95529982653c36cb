// Routes that speak of the server: health, shared memory, traces, the log.
#pragma once

#include <string_view>

#include "server/core/server.h"
#include "server/http/exchange.h"
#include "server/http/route.h"

namespace camshaft::server {

/// Each throws ServerError for what the client is to read as an error.
HttpReply server_live(Server& server);
HttpReply server_ready(Server& server);
HttpReply server_metadata(Server& server);
HttpReply system_shared_memory(Server& server, const Route& route, std::string_view body);
HttpReply cuda_shared_memory(Server& server, const Route& route, std::string_view body);
HttpReply trace_setting(Server& server, const Route& route, bool post, std::string_view body);
HttpReply log_settings(Server& server, bool post, std::string_view body);

}  // namespace camshaft::server

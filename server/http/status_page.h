// A page for people: what the server does at the moment.
#pragma once

#include "server/core/server.h"
#include "server/http/exchange.h"

namespace camshaft::server {

/// One document that loads nothing but status.json.
HttpReply status_page();
/// What the page shows: models with states, queues and latencies, and the last errors.
HttpReply status_data(Server& server);

}  // namespace camshaft::server

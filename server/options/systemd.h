// What systemd is told of a service: see sd_notify(3).
#pragma once

#include <string>

namespace camshaft::server {

/// One datagram to $NOTIFY_SOCKET: "READY=1", "STOPPING=1". Nothing where the variable is not set.
void notify_systemd(const std::string& state);

}  // namespace camshaft::server

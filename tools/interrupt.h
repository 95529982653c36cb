// Ctrl-C.
#pragma once

#include "camshaft/cancellation.hpp"

namespace camshaft::tools {

/// From the first call on, SIGINT and SIGTERM cancel what this returns, once; a second signal ends the process at once,
/// as it would have without.
Cancellation cancel_on_interrupt();
/// 130 or 143, by the signal that came.
int interrupted_exit_code();

}  // namespace camshaft::tools

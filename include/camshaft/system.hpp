// What the library has, and what it can run on here.
#pragma once

#include <string>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/record.hpp"

namespace camshaft {
inline namespace v1 {

/// "0.1.0"
inline std::string version() {
  return camshaft_version();
}

/// Cores that the process may use: its affinity and the CPU quota of its control group.
inline int available_cores() {
  return camshaft_available_cores();
}

/// The ONNX operators that models may use: [{domain, operator, since}].
inline Record known_operators() {
  return detail::record_of([](camshaft_record** operators) { return camshaft_list_operators(operators); });
}

/// What engines can run on, the host first: [{kind, device ("cpu", "cuda:1"), name, isa, cores, memory_bytes,
/// warning, …}]. Of GPUs that cannot be used, `warning` says why; where there is none, the last entry has the kind
/// "cuda", no name, and the reason.
/// `measure_threads`: also measure what the host does at most with so many threads; 0: do not.
inline Record devices(int measure_threads = 0) {
  return detail::record_of([&](camshaft_record** list) { return camshaft_list_devices(measure_threads, list); });
}

}  // namespace v1
}  // namespace camshaft

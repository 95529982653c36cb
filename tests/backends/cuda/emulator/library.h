// What stand-ins for NVIDIA's other libraries need of the emulated driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#define EMULATOR_SHARED __attribute__((visibility("default")))

namespace emulator {

/// What work says that cannot be done yet: it is called again, and what is behind it in the stream waits.
inline constexpr const char* not_yet = "not yet";
/// Puts work into a stream, or into the graph that it is recorded into. The work gives what went wrong, or nothing, and
/// may touch device memory. False if there is no such stream, or the calling thread has no context.
EMULATOR_SHARED bool enqueue(void* stream, std::function<std::string()> work);
/// Whether all of these bytes belong to one allocation on the device.
EMULATOR_SHARED bool is_on_device(const void* address, size_t bytes);

}  // namespace emulator

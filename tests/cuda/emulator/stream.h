// Order of work on the emulated device.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace emulator {

/// Gives what went wrong, or nothing.
using Work = std::function<std::string()>;

/// What stands in a stream or a graph. Nothing of a stream is done before somebody waits for it: as late as a device
/// may do it, so that who forgets to wait sees what was there before.
struct Stream {
  std::vector<Work> waiting;
  std::string problem;                          ///< of the first work that failed; nothing is done after it
  std::shared_ptr<std::vector<Work>> captured;  ///< where calls go while it is being captured
  bool is_invalid = false;                      ///< the capture: something was called that may not be

  void add(Work work) { (captured ? *captured : waiting).push_back(std::move(work)); }
};

/// Guards everything of the emulated device.
std::recursive_mutex& device_mutex();
/// Does what waits in a stream.
void finish(Stream& stream);
/// Of all streams.
void finish_all();
Stream* make_stream();
void destroy_stream(Stream* stream);
/// Null if there is no such stream. A null handle is the default stream.
Stream* find_stream(void* handle);
/// What went wrong last.
std::string& last_problem();

}  // namespace emulator

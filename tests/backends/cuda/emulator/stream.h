// Order of work on the emulated devices.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/driver/c_api.h"

namespace emulator {

/// Gives what went wrong, or nothing.
using Work = std::function<std::string()>;

/// Aligned as the device has parameters.
struct alignas(64) ParameterBytes {
  std::byte bytes[64];
};

/// What a graph has of a kernel: how it was launched, and the same with other arguments.
struct KernelCall {
  camshaft::cuda::api::KernelNode launch;
  std::vector<std::vector<ParameterBytes>> values;  ///< of its arguments
  std::vector<void*> pointers;                      ///< to them
  std::function<std::shared_ptr<KernelCall>(void** arguments)> with;
  Work work;
};

/// In a graph: a kernel, or anything else, behind other nodes.
struct Node {
  Work work;
  std::shared_ptr<KernelCall> kernel;
  std::vector<void*> after;
};
using Nodes = std::vector<std::unique_ptr<Node>>;

/// What stands in a stream. Nothing of a stream is done before somebody waits for it: as late as a device
/// may do it, so that who forgets to wait sees what was there before.
struct Stream {
  int device = 0;  ///< its ordinal
  std::vector<Work> waiting;
  std::string problem;              ///< of the first work that failed; nothing is done after it
  std::shared_ptr<Nodes> captured;  ///< where calls go while it is being captured
  std::vector<void*> latest;        ///< nodes of that, which the next one comes behind
  bool has_joined = false;          ///< the capture of another stream
  bool is_invalid = false;          ///< the capture: something was called that may not be

  void add(Work work, std::shared_ptr<KernelCall> kernel = nullptr) {
    if (!captured) return waiting.push_back(std::move(work));
    captured->push_back(std::make_unique<Node>(Node{std::move(work), std::move(kernel), std::move(latest)}));
    latest = {captured->back().get()};
  }
};

/// Guards everything of the emulated devices.
std::recursive_mutex& device_mutex();
/// Does what waits in a stream, as far as it need not wait for other streams.
void finish(Stream& stream);
/// Of all streams.
void finish_all();
Stream* make_stream(int device);
void destroy_stream(Stream* stream);
/// Null if there is no such stream. A null handle is the default stream of the device.
Stream* find_stream(void* handle, int device);
void for_each_stream(const std::function<void(Stream&)>& call);
/// What went wrong last.
std::string& last_problem();

}  // namespace emulator

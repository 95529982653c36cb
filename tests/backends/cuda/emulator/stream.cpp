#include "stream.h"

#include <cstdio>
#include <iterator>
#include <map>
#include <set>

#include "library.h"
#include "memory.h"

namespace emulator {

namespace {

std::set<Stream*>& streams() {
  static auto* streams = new std::set<Stream*>;
  return *streams;
}

Stream* default_stream(int device) {
  static auto* defaults = new std::map<int, Stream*>;
  Stream*& stream = (*defaults)[device];
  if (stream == nullptr) stream = make_stream(device);
  return stream;
}

}  // namespace

std::recursive_mutex& device_mutex() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

void finish(Stream& stream) {
  const std::lock_guard lock(device_mutex());
  if (stream.waiting.empty()) return;
  const Access access;
  std::vector<Work> work = std::move(stream.waiting);
  stream.waiting.clear();
  for (size_t w = 0; w < work.size(); ++w) {
    if (!stream.problem.empty()) return;
    std::string said = work[w]();
    if (said == not_yet) {
      stream.waiting.assign(std::make_move_iterator(work.begin() + static_cast<std::ptrdiff_t>(w)),
                            std::make_move_iterator(work.end()));
      return;
    }
    stream.problem = std::move(said);
    if (stream.problem.empty()) continue;
    std::fprintf(stderr, "emulated GPU: %s\n", stream.problem.c_str());
    last_problem() = stream.problem;
  }
}

void finish_all() {
  const std::lock_guard lock(device_mutex());
  for (Stream* stream : streams()) finish(*stream);
}

Stream* make_stream(int device) {
  const std::lock_guard lock(device_mutex());
  auto* made = new Stream;
  made->device = device;
  return *streams().insert(made).first;
}

void destroy_stream(Stream* stream) {
  const std::lock_guard lock(device_mutex());
  finish(*stream);
  streams().erase(stream);
  delete stream;
}

Stream* find_stream(void* handle, int device) {
  const std::lock_guard lock(device_mutex());
  if (handle == nullptr) return default_stream(device);
  const auto found = streams().find(static_cast<Stream*>(handle));
  return found == streams().end() ? nullptr : *found;
}

void for_each_stream(const std::function<void(Stream&)>& call) {
  const std::lock_guard lock(device_mutex());
  for (Stream* stream : streams()) call(*stream);
}

std::string& last_problem() {
  static auto* problem = new std::string;
  return *problem;
}

}  // namespace emulator

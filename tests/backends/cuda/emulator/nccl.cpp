// An NCCL that stands in for NVIDIA's, for ranks that are threads of one process: the functions that
// src/backends/cuda/libraries/nccl_api.h declares. Ranks that are at different things, for which the real one would
// wait for ever, are told so.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "backends/cuda/libraries/nccl_api.h"
#include "library.h"

using namespace camshaft::cuda::api;

#define EMULATOR_API extern "C" EMULATOR_SHARED

EMULATOR_API Result cuCtxGetDevice(camshaft::cuda::api::Device* device);

namespace {

enum class Kind { all_reduce, all_gather, reduce_scatter, broadcast, parts };

struct Part {
  std::byte* at;
  size_t bytes;
  int rank;  // whom it is for, or whom it comes from
};

// What a rank is at.
struct Call {
  Kind kind = Kind::all_reduce;
  const std::byte* x = nullptr;
  std::byte* y = nullptr;
  size_t count = 0;
  NcclType type = nccl_u8;
  NcclReduction reduction = nccl_sum;
  int root = 0;
  std::vector<Part> sent = {}, received = {};

  auto what() const { return std::tie(kind, count, type, reduction, root); }
};

Call call_of(Kind kind, const void* x, void* y, size_t count, NcclType type, NcclReduction reduction = nccl_sum,
             int root = 0) {
  return {.kind = kind,
          .x = static_cast<const std::byte*>(x),
          .y = static_cast<std::byte*>(y),
          .count = count,
          .type = type,
          .reduction = reduction,
          .root = root};
}

// Ranks that meet.
struct Group {
  std::vector<int> devices;  // of those that have come
  int ranks = 0;
  bool is_aborted = false;                     // before all had come
  std::vector<bool> has_left;                  // ranks that wait for nobody any more
  std::vector<size_t> begun;                   // calls of each rank that its device has come to
  std::map<size_t, std::vector<Call>> coming;  // by number, those that have come
  std::map<size_t, int> arrived;
  size_t done = 0;  // calls of all ranks
  std::string problem;
};

struct RankOf {
  std::shared_ptr<Group> group;
  int rank = 0;
};

std::mutex& mutex() {
  static auto* made = new std::mutex;
  return *made;
}

std::condition_variable& changed() {
  static auto* made = new std::condition_variable;
  return *made;
}

std::map<std::string, std::shared_ptr<Group>>& groups() {
  static auto* made = new std::map<std::string, std::shared_ptr<Group>>;
  return *made;
}

size_t bytes_of(NcclType type) {
  switch (type) {
    case nccl_i8:
    case nccl_u8:
      return 1;
    case nccl_f16:
    case nccl_bf16:
      return 2;
    case nccl_i32:
    case nccl_u32:
    case nccl_f32:
      return 4;
    default:
      return 8;
  }
}

template <class T>
struct As {
  static T load(const std::byte* at) {
    T x;
    std::memcpy(&x, at, sizeof x);
    return x;
  }
  static void store(std::byte* at, T x) { std::memcpy(at, &x, sizeof x); }
};

struct Half {
  static float load(const std::byte* at) { return static_cast<float>(As<_Float16>::load(at)); }
  static void store(std::byte* at, float x) { As<_Float16>::store(at, static_cast<_Float16>(x)); }
};

struct Brain {
  static float load(const std::byte* at) {
    const uint32_t bits = uint32_t{As<uint16_t>::load(at)} << 16;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  static void store(std::byte* at, float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    if (x == x) bits += 0x7fff + (bits >> 16 & 1);
    As<uint16_t>::store(at, static_cast<uint16_t>(bits >> 16));
  }
};

template <class T>
T combined(NcclReduction reduction, T a, T b) {
  if (reduction == nccl_max) return a > b ? a : b;
  if (reduction == nccl_min) return a < b ? a : b;
  if constexpr (std::is_integral_v<T>) {
    const auto u = static_cast<uint64_t>(a), v = static_cast<uint64_t>(b);
    return static_cast<T>(reduction == nccl_prod ? u * v : u + v);
  } else {
    return reduction == nccl_prod ? a * b : a + b;
  }
}

template <class Number>
void reduce_as(const std::vector<Call>& calls, size_t begin, size_t count, std::byte* y) {
  const size_t bytes = bytes_of(calls[0].type);
  for (size_t i = 0; i < count; ++i) {
    auto sum = Number::load(calls[0].x + (begin + i) * bytes);
    for (size_t r = 1; r < calls.size(); ++r)
      sum = combined(calls[0].reduction, sum, Number::load(calls[r].x + (begin + i) * bytes));
    if (calls[0].reduction == nccl_avg)
      sum = static_cast<decltype(sum)>(sum / static_cast<decltype(sum)>(calls.size()));
    Number::store(y + i * bytes, sum);
  }
}

void reduce(const std::vector<Call>& calls, size_t begin, size_t count, std::byte* y) {
  switch (calls[0].type) {
    case nccl_i8:
      return reduce_as<As<int8_t>>(calls, begin, count, y);
    case nccl_u8:
      return reduce_as<As<uint8_t>>(calls, begin, count, y);
    case nccl_i32:
      return reduce_as<As<int32_t>>(calls, begin, count, y);
    case nccl_u32:
      return reduce_as<As<uint32_t>>(calls, begin, count, y);
    case nccl_i64:
      return reduce_as<As<int64_t>>(calls, begin, count, y);
    case nccl_u64:
      return reduce_as<As<uint64_t>>(calls, begin, count, y);
    case nccl_f16:
      return reduce_as<Half>(calls, begin, count, y);
    case nccl_f32:
      return reduce_as<As<float>>(calls, begin, count, y);
    case nccl_f64:
      return reduce_as<As<double>>(calls, begin, count, y);
    case nccl_bf16:
      return reduce_as<Brain>(calls, begin, count, y);
  }
}

std::string pass_parts(const std::vector<Call>& calls) {
  for (size_t to = 0; to < calls.size(); ++to) {
    std::vector<size_t> taken(calls.size(), 0);
    for (const Part& part : calls[to].received) {
      const auto from = static_cast<size_t>(part.rank);
      size_t skip = taken[from]++;
      const auto sent = std::find_if(calls[from].sent.begin(), calls[from].sent.end(), [&](const Part& other) {
        return other.rank == static_cast<int>(to) && skip-- == 0;
      });
      if (sent == calls[from].sent.end() || sent->bytes != part.bytes) return "NCCL: a rank waits for what none sends";
      std::memcpy(part.at, sent->at, part.bytes);
    }
  }
  return "";
}

// What all ranks are at, once all of them are.
std::string do_together(const std::vector<Call>& calls) {
  for (const Call& call : calls)
    if (call.what() != calls[0].what()) return "NCCL: ranks are at different things";
  const size_t bytes = calls[0].count * bytes_of(calls[0].type);
  std::vector<std::vector<std::byte>> results;  // which may be written over what others still read
  switch (calls[0].kind) {
    case Kind::parts:
      return pass_parts(calls);
    case Kind::all_reduce:
    case Kind::reduce_scatter:
      for (size_t r = 0; r < calls.size(); ++r) {
        results.emplace_back(bytes);
        reduce(calls, calls[0].kind == Kind::all_reduce ? 0 : r * calls[0].count, calls[0].count,
               results.back().data());
      }
      break;
    case Kind::broadcast:
      for (size_t r = 0; r < calls.size(); ++r) {
        const std::byte* const x = calls[static_cast<size_t>(calls[0].root)].x;
        results.emplace_back(x, x + bytes);
      }
      break;
    case Kind::all_gather:
      for (size_t r = 0; r < calls.size(); ++r) {
        results.emplace_back();
        for (const Call& call : calls) results.back().insert(results.back().end(), call.x, call.x + bytes);
      }
      break;
  }
  for (size_t r = 0; r < calls.size(); ++r) std::memcpy(calls[r].y, results[r].data(), results[r].size());
  return "";
}

// A rank's device has come to a call; asked again until all have.
std::string arrive(const RankOf& own, const Call& call, size_t& number) {
  const std::lock_guard lock(mutex());
  Group& group = *own.group;
  if (group.has_left[static_cast<size_t>(own.rank)]) return "";
  const auto ranks = static_cast<size_t>(group.ranks);
  if (number == 0) {
    number = ++group.begun[static_cast<size_t>(own.rank)];
    std::vector<Call>& calls = group.coming[number];
    calls.resize(ranks);
    calls[static_cast<size_t>(own.rank)] = call;
    if (++group.arrived[number] == group.ranks) {
      group.problem = do_together(calls);
      group.done = number;
      group.coming.erase(number);
      group.arrived.erase(number);
    }
  }
  if (!group.problem.empty()) return group.problem;
  return group.done >= number ? "" : emulator::not_yet;
}

// Sends and receives between ncclGroupStart() and ncclGroupEnd().
struct Grouped {
  int depth = 0;
  RankOf* rank = nullptr;
  Handle stream = nullptr;
  Call call;
};
thread_local Grouped grouped;

bool is_memory_of(const void* address, size_t bytes) {
  return bytes == 0 || emulator::is_on_device(address, bytes);
}

Result put(const RankOf* rank, const Call& call, Handle stream) {
  if (rank == nullptr) return nccl_invalid_argument;
  camshaft::cuda::api::Device device = -1;
  if (cuCtxGetDevice(&device) != success || device != rank->group->devices[static_cast<size_t>(rank->rank)])
    return nccl_invalid_usage;
  const bool done = emulator::enqueue(
      stream, [own = *rank, call, number = size_t{0}]() mutable { return arrive(own, call, number); });
  return done ? Result{success} : Result{nccl_invalid_argument};
}

Result put_part(bool sends, const void* at, size_t count, NcclType type, int other, Handle communicator,
                Handle stream) {
  auto* const rank = static_cast<RankOf*>(communicator);
  const size_t bytes = count * bytes_of(type);
  if (grouped.depth == 0 || !is_memory_of(at, bytes) || other < 0 || other >= rank->group->ranks)
    return nccl_invalid_usage;
  grouped.rank = rank;
  grouped.stream = stream;
  grouped.call.kind = Kind::parts;
  (sends ? grouped.call.sent : grouped.call.received)
      .push_back({static_cast<std::byte*>(const_cast<void*>(at)), bytes, other});
  return success;
}

}  // namespace

EMULATOR_API Result ncclGetVersion(int* version) {
  *version = 29900;
  return success;
}

EMULATOR_API const char* ncclGetErrorString(Result result) {
  return result == nccl_system_error ? "emulated ranks are in one process" : "of the emulated NCCL";
}

EMULATOR_API Result ncclGetUniqueId(NcclId* id) {
  static int count = 0;
  const std::lock_guard lock(mutex());
  *id = {};
  const std::string text = std::to_string(getpid()) + "-" + std::to_string(++count);
  std::memcpy(id->bytes, text.data(), text.size());
  groups()[text] = std::make_shared<Group>();
  return success;
}

namespace {

// By which a rank in another process, which cannot be met here, tells the others that it will not come.
std::string refusal_file(const char* id) {
  return std::string("/dev/shm/emulated-nccl-") + id;
}

}  // namespace

// CAMSHAFT_EMULATED_NCCL_FAILS, a rank, has that one fail.
EMULATOR_API Result ncclCommInitRank(Handle* communicator, int ranks, NcclId id, int rank) {
  *communicator = nullptr;
  std::unique_lock lock(mutex());
  const auto found = groups().find(id.bytes);
  if (found == groups().end()) {
    std::ofstream(refusal_file(id.bytes)) << rank;
    return nccl_system_error;
  }
  camshaft::cuda::api::Device device = -1;
  if (cuCtxGetDevice(&device) != success || rank < 0 || rank >= ranks) return nccl_invalid_argument;
  const std::shared_ptr<Group> group = found->second;
  group->ranks = ranks;
  group->devices.resize(static_cast<size_t>(ranks), -1);
  group->begun.resize(static_cast<size_t>(ranks), 0);
  group->has_left.resize(static_cast<size_t>(ranks), false);
  const bool is_taken = std::find(group->devices.begin(), group->devices.end(), device) != group->devices.end();
  const char* const fails = std::getenv("CAMSHAFT_EMULATED_NCCL_FAILS");
  if (is_taken || (fails && std::atoi(fails) == rank)) group->is_aborted = true;
  group->devices[static_cast<size_t>(rank)] = device;
  changed().notify_all();
  const auto are_there = [&] {
    if (std::remove(refusal_file(id.bytes).c_str()) == 0) group->is_aborted = true;
    return group->is_aborted || std::find(group->devices.begin(), group->devices.end(), -1) == group->devices.end();
  };
  while (!changed().wait_for(lock, std::chrono::milliseconds(20), are_there)) {
  }
  if (group->is_aborted) return is_taken ? nccl_invalid_usage : nccl_remote_error;
  *communicator = new RankOf{group, rank};
  return success;
}

EMULATOR_API Result ncclCommAbort(Handle communicator) {
  const std::lock_guard lock(mutex());
  // What the device does for a rank may be asked for later: handles stay.
  const auto* const own = static_cast<RankOf*>(communicator);
  own->group->has_left[static_cast<size_t>(own->rank)] = true;
  return success;
}

EMULATOR_API Result ncclCommGetAsyncError(Handle, Result* error) {
  *error = success;
  return success;
}

EMULATOR_API Result ncclAllReduce(const void* x, void* y, size_t count, NcclType type, NcclReduction reduction,
                                  Handle communicator, Handle stream) {
  if (!is_memory_of(x, count * bytes_of(type)) || !is_memory_of(y, count * bytes_of(type)))
    return nccl_invalid_argument;
  return put(static_cast<RankOf*>(communicator), call_of(Kind::all_reduce, x, y, count, type, reduction), stream);
}

EMULATOR_API Result ncclAllGather(const void* x, void* y, size_t count, NcclType type, Handle communicator,
                                  Handle stream) {
  const auto* const rank = static_cast<RankOf*>(communicator);
  const size_t bytes = count * bytes_of(type);
  if (!is_memory_of(x, bytes) || !is_memory_of(y, bytes * static_cast<size_t>(rank->group->ranks)))
    return nccl_invalid_argument;
  return put(rank, call_of(Kind::all_gather, x, y, count, type), stream);
}

EMULATOR_API Result ncclReduceScatter(const void* x, void* y, size_t count, NcclType type, NcclReduction reduction,
                                      Handle communicator, Handle stream) {
  const auto* const rank = static_cast<RankOf*>(communicator);
  const size_t bytes = count * bytes_of(type);
  if (!is_memory_of(y, bytes) || !is_memory_of(x, bytes * static_cast<size_t>(rank->group->ranks)))
    return nccl_invalid_argument;
  return put(rank, call_of(Kind::reduce_scatter, x, y, count, type, reduction), stream);
}

EMULATOR_API Result ncclBroadcast(const void* x, void* y, size_t count, NcclType type, int root, Handle communicator,
                                  Handle stream) {
  if (!is_memory_of(x, count * bytes_of(type)) || !is_memory_of(y, count * bytes_of(type)))
    return nccl_invalid_argument;
  return put(static_cast<RankOf*>(communicator), call_of(Kind::broadcast, x, y, count, type, nccl_sum, root), stream);
}

EMULATOR_API Result ncclSend(const void* x, size_t count, NcclType type, int to, Handle communicator, Handle stream) {
  return put_part(true, x, count, type, to, communicator, stream);
}

EMULATOR_API Result ncclRecv(void* y, size_t count, NcclType type, int from, Handle communicator, Handle stream) {
  return put_part(false, y, count, type, from, communicator, stream);
}

EMULATOR_API Result ncclGroupStart() {
  ++grouped.depth;
  return success;
}

EMULATOR_API Result ncclGroupEnd() {
  if (grouped.depth == 0) return nccl_invalid_usage;
  if (--grouped.depth > 0) return success;
  Grouped whole = std::move(grouped);
  grouped = {};
  return whole.rank == nullptr ? Result{success} : put(whole.rank, whole.call, whole.stream);
}

// Each as it was declared.
#define CAMSHAFT_CHECK(name, parameters) \
  static_assert(std::is_same_v<decltype(&name), Result(*) parameters>, #name " is declared otherwise");
CAMSHAFT_CUDA_NCCL(CAMSHAFT_CHECK)

#include "runtime/link_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "ir/ops/collective.h"

namespace camshaft {

namespace {

constexpr size_t most_text = 400, most_key = 256;

using Text = std::array<char, most_text>;

Text text_of(std::string_view words) {
  Text text{};
  std::memcpy(text.data(), words.data(), std::min(words.size(), most_text - 1));
  return text;
}

struct SentOffer {
  Text kind, device, problem;
};
struct SentKey {
  Text problem;
  std::array<std::byte, most_key> key;
  uint64_t bytes;
};

// What each rank brings.
template <class T>
std::vector<T> exchanged(Communicator& communicator, std::string_view call, const T& mine) {
  std::vector<T> all(static_cast<size_t>(communicator.size()));
  communicator.exchange(call, std::as_bytes(std::span(&mine, 1)), sizeof(T),
                        [&](int rank, size_t offset, std::span<const std::byte> part) {
                          auto* const to = reinterpret_cast<std::byte*>(&all[static_cast<size_t>(rank)]);
                          std::memcpy(to + offset, part.data(), part.size());
                        });
  return all;
}

// Why ranks of these offers have no link; empty where they may have one.
std::string problem_of(const std::vector<SentOffer>& offers) {
  for (size_t r = 0; r < offers.size(); ++r)
    if (offers[r].problem[0] != 0) return fmt::format("rank {} has {}", r, offers[r].problem.data());
  for (size_t r = 1; r < offers.size(); ++r) {
    if (offers[r].kind != offers[0].kind)
      return fmt::format("rank 0 has {}, rank {} {}", offers[0].kind.data(), r, offers[r].kind.data());
    for (size_t other = 0; other < r; ++other)
      if (offers[other].device == offers[r].device)
        return fmt::format("ranks {} and {} are both on GPU {}", other, r, offers[r].device.data());
  }
  return "";
}

void warn_once(const std::string& problem) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(problem).second)
    log_warning(fmt::format("{}: ranks meet over the host's memory, which is slower", problem));
}

SentKey key_of(const Backend& backend) {
  SentKey sent{};
  try {
    const std::vector<std::byte> key = backend.make_link_key();
    if (key.size() > most_key) throw Error(ErrorCode::internal, "the key of a link is too long");
    std::copy(key.begin(), key.end(), sent.key.begin());
    sent.bytes = key.size();
  } catch (const Error& e) {
    sent.problem = text_of(e.what());
  }
  return sent;
}

// Null where `problem` says why, or where a rank has no device that could have one.
std::shared_ptr<DeviceLink> make_link(Communicator& communicator, const Backend& backend, std::string& problem) {
  const LinkOffer mine = backend.link_offer();
  const SentOffer sent{text_of(mine.kind), text_of(mine.device), text_of(mine.problem)};
  const std::vector<SentOffer> offers = exchanged(communicator, "what devices ranks have", sent);
  for (const SentOffer& offer : offers)
    if (offer.kind[0] == 0 && offer.problem[0] == 0) return nullptr;
  problem = problem_of(offers);
  if (!problem.empty()) return nullptr;
  const SentKey key =
      exchanged(communicator, "the key of a link", communicator.rank() == 0 ? key_of(backend) : SentKey{})[0];
  problem = key.problem.data();
  if (!problem.empty()) return nullptr;
  std::shared_ptr<DeviceLink> link;
  Text failed{};
  try {
    link = backend.make_link(communicator.rank(), communicator.size(), std::span(key.key).first(key.bytes));
  } catch (const Error& e) {
    failed = text_of(fmt::format("rank {}: {}", communicator.rank(), e.what()));
  }
  for (const Text& each : exchanged(communicator, "whether there is a link", failed))
    if (problem.empty()) problem = each.data();
  return problem.empty() ? link : nullptr;
}

}  // namespace

void link_ranks(Communicator& communicator, const Backend& backend) {
  if (!communicator.has_settled_link()) {
    std::string problem;
    communicator.settle_link(make_link(communicator, backend, problem));
    if (!problem.empty() && communicator.rank() == 0) warn_once(problem);
  }
  const DeviceLink* link = communicator.link();
  if (link && link->device() != backend.device().id)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the communicator is of {}, and an engine on {} runs over it: make one for each device",
                            to_string(link->device()), to_string(backend.device().id)));
}

std::string described_collectives(const Graph& graph, const SymbolBindings& symbols) {
  std::string all;
  size_t count = 0;
  for (const Node& node : graph.nodes) {
    const auto* op = node.op.as<ops::Collective>();
    if (!op) continue;
    const TensorType& type = graph.type(node.inputs[0]);
    std::vector<std::string> names;
    for (const Dim& size : type.shape) size.collect_symbols(names);
    if (!std::all_of(names.begin(), names.end(), [&](const std::string& name) { return symbols.contains(name); }))
      continue;
    Dims dims;
    for (const Dim& size : type.shape) dims.push_back(size.evaluate(symbols));
    all += (count++ == 0 ? "" : "; ") + ops::described(*op, type.dtype, dims);
  }
  // Ranks compare so many characters; of many collectives the first one stands for all where that differs, too.
  constexpr size_t most_compared = 150;
  if (all.size() <= most_compared) return all;
  return fmt::format("{}… ({} collectives, {:016x})", all.substr(0, most_compared), count, hash64(all));
}

void meet_for_run(Communicator& communicator, const std::string& collectives) {
  communicator.exchange(collectives, {}, 0, [](int, size_t, std::span<const std::byte>) {});
}

}  // namespace camshaft

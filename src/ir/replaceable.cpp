#include "ir/replaceable.h"

#include <algorithm>

#include "base/hash.h"

namespace camshaft {

void Replaceable::add(const std::string& name, const Tensor& tensor) {
  if (names_.contains(name)) entries_.try_emplace(name, Entry{tensor, {}});
}

bool Replaceable::contains(const std::string& name) const {
  const auto it = entries_.find(name);
  return it != entries_.end() && it->second.fixed_by.empty();
}

void Replaceable::fix(const std::string& name, std::string_view reason) {
  const auto it = entries_.find(name);
  if (it != entries_.end() && it->second.fixed_by.empty()) it->second.fixed_by = reason;
}

void Replaceable::note(const std::string& name, std::string_view what) {
  if (entries_.contains(name)) notes_.try_emplace(name, what);
}

std::vector<InitializerRecord> Replaceable::records() const {
  std::vector<InitializerRecord> list;
  for (const auto& [name, entry] : entries_) {
    InitializerRecord record{name, entry.tensor.dtype(), entry.tensor.dims(), entry.fixed_by};
    if (!entry.fixed_by.empty() && !holds_objects(entry.tensor.dtype())) {
      record.hash = hash64(entry.tensor.span());
      if (entry.tensor.bytes() <= InitializerRecord::most_kept_bytes) record.value = entry.tensor.copy();
    }
    if (const auto it = uses_.find(name); it != uses_.end()) record.uses = it->second;
    list.push_back(std::move(record));
  }
  return list;
}

namespace {

thread_local Replaceable* of_thread = nullptr;

}  // namespace

ReplaceableScope::ReplaceableScope(Replaceable* of_build) : before_(std::exchange(of_thread, of_build)) {}

ReplaceableScope::~ReplaceableScope() {
  of_thread = before_;
}

Replaceable* ReplaceableScope::current() {
  return of_thread;
}

bool may_be_replaced(const Provenance::Pointer& provenance) {
  if (!of_thread || !provenance) return false;
  const std::set<std::string> names = initializer_names(*provenance);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) { return of_thread->contains(name); });
}

bool may_be_replaced_as_integers(const Provenance::Pointer& provenance) {
  if (!of_thread || !provenance) return false;
  const std::set<std::string> names = initializer_names(*provenance);
  return !names.empty() && std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return of_thread->is_integer_weight(name) && of_thread->contains(name);
  });
}

void fix_numbers(const Provenance::Pointer& provenance, std::string_view reason) {
  if (!of_thread || !provenance) return;
  for (const std::string& name : initializer_names(*provenance)) of_thread->fix(name, reason);
}

void fix_numbers(const Graph& graph, ValueId id, std::string_view reason) {
  if (id != no_value) fix_numbers(graph.value(id).provenance, reason);
}

void note_replaceable(const Provenance::Pointer& provenance, std::string_view what) {
  if (!of_thread || !provenance) return;
  for (const std::string& name : initializer_names(*provenance))
    if (of_thread->contains(name)) of_thread->note(name, what);
}

}  // namespace camshaft

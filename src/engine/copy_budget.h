// What reading a stored list may cost.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstring>
#include <vector>

namespace camshaft {

/// How many bytes a decoder may still copy. What a writer stores lies in the section once, so that all copies together
/// are no larger than it; a hostile section refers to the same bytes over and over.
class CopyBudget {
 public:
  explicit CopyBudget(size_t section_bytes) : left_(section_bytes) {}
  /// Throws Error(corrupt_engine) when nothing is left.
  void take(size_t bytes);

 private:
  size_t left_;
};

/// A stored list of numbers, empty when absent. By memcpy: the verifier of FlatBuffers checks where the list starts,
/// not that its elements are aligned.
template <class T>
std::vector<T> copy_numbers(const flatbuffers::Vector<T>* list, CopyBudget& budget) {
  if (!list || list->size() == 0) return {};
  budget.take(list->size() * sizeof(T));
  std::vector<T> out(list->size());
  std::memcpy(out.data(), list->Data(), list->size() * sizeof(T));
  return out;
}

}  // namespace camshaft

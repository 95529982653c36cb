// Where constants come from, in the FlatBuffers form of an engine file: one list for all graphs of an engine, in which
// each part of an expression is once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/copy_budget.h"
#include "engine_format_generated.h"
#include "ir/provenance.h"

namespace camshaft {

class ProvenanceEncoder {
 public:
  /// The entry that the expression is in the list.
  int32_t add(const Provenance::Pointer& provenance);

  // What was added, for the engine's fields of these names. To be called once each.
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<format::Operator>>> operators(
      flatbuffers::FlatBufferBuilder& builder) const;
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<format::Provenance>>> provenances(
      flatbuffers::FlatBufferBuilder& builder) const;

 private:
  struct Entry {
    Provenance::Pointer part;
    uint32_t op = 0;                // of transforms
    std::vector<int32_t> operands;  // entries before this one
  };
  uint32_t add_operator(const Op& op);
  /// An entry that says the same as an initializer or literal, which are objects of their own in each expression.
  std::optional<int32_t> find_same(const Provenance& leaf) const;
  static uint64_t hash_of(const Provenance& leaf);

  std::vector<Op> operators_;
  std::multimap<std::string, uint32_t, std::less<>> operators_by_name_;
  std::vector<Entry> entries_;
  std::unordered_map<const Provenance*, int32_t> known_;
  std::unordered_multimap<uint64_t, int32_t> leaves_;  // by hash_of()
};

/// By the entries that constants refer to.
using ProvenanceList = std::vector<Provenance::Pointer>;
/// Checks every index, type and operator, and that expressions are no deeper than they may be. Throws Error.
ProvenanceList decode_provenances(const format::Engine& engine, CopyBudget& budget);

}  // namespace camshaft

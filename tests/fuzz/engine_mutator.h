// Changes engine files behind their checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "engine/engine_file.h"

namespace camshaft {

/// Random changes of an engine as it lies in memory: operators' fields, edges, types, constants, tactics, packed forms
/// and profiles. Deterministic in the seed.
class EngineMutator {
 public:
  EngineMutator(EngineFile& engine, uint32_t seed) : engine_(engine), random_(seed) {}
  void mutate();

 private:
  uint32_t below(size_t n) { return n == 0 ? 0 : static_cast<uint32_t>(random_() % n); }
  bool one_in(uint32_t n) { return below(n) == 0; }
  template <class T>
  auto& any(T& list) {
    return list[below(std::size(list))];
  }
  int64_t integer();
  double real();
  Dim dim();
  Graph& graph();
  void mutate_field(FieldValue& value);
  void mutate_operator(Node& node);
  void mutate_edges(Graph& graph);
  void mutate_value(Value& value);
  void mutate_nodes(Graph& graph);
  void mutate_tables();

  EngineFile& engine_;
  std::mt19937 random_;
};

/// Changes bytes of the sections as they are stored (by `change`, which is given a section's bytes and returns how many
/// are left), and seals the file again. Nothing when the bytes are no container.
std::vector<std::byte> reseal(std::span<const std::byte> file, uint32_t seed,
                              size_t (*change)(uint8_t* data, size_t size, size_t max_size));

}  // namespace camshaft

// What runs: steps in order, over values that live in the arena, in constants, or in the caller's memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compile/backend.h"
#include "compile/constants/device_weights.h"

namespace camshaft {

/// Where a value's bytes are.
enum class Storage : uint8_t {
  none,      ///< nobody reads it
  input,     ///< the caller's input `index`
  output,    ///< the caller's output `index`
  constant,  ///< in the graph
  arena,     ///< at an offset that is planned once the sizes are known
  dynamic,   ///< its size is known only after its step ran: allocated then
  alias,     ///< the same bytes as value `index` (a reshape)
  slice,     ///< a part of each row of value `index`, where a row is the last axis: from `row`, `column` on
};

struct PlanValue {
  std::string name;
  TensorType type;
  Storage storage = Storage::none;
  int32_t index = -1;
  int32_t first_step = -1;   ///< of an arena or dynamic value: the step that writes it …
  int32_t last_step = -1;    ///< … and the last that reads it, through aliases too
  int32_t in_place_of = -1;  ///< this arena value may take over that one's memory, which dies at first_step
  Dim row, column;           ///< of a slice: its first element in value `index`
  std::shared_ptr<const Tensor> constant;
  DeviceId device = DeviceId::host;  ///< in whose memory it is
  int32_t copy_of = -1;              ///< the value on another device that this one holds too
  /// Has no room in the arena: on a GPU what is copied of an input that a step there updates, and what that makes of
  /// it. It is the caller's where that is on the GPU, as caches are; else the executor makes room for it.
  bool is_apart = false;
  /// Of a constant on a GPU: its bytes there, once they have been brought (see upload_constants()).
  std::shared_ptr<std::byte> uploaded;
};

struct PlanStep {
  int32_t node = -1;  ///< of the graph; -1 for copies to outputs
  std::string name;   ///< of its first output
  std::string op;     ///< operator or region kind, for reports
  std::string tactic;
  std::vector<std::string> further_tactics;  ///< see TacticChoice
  Deviation deviation = Deviation::none;     ///< of its tactic
  bool moves_steps = false;                  ///< its tactic does, see moved_by_steps
  bool is_invariant = false;                 ///< see find_invariant_steps()
  DeviceId device = DeviceId::host;          ///< that runs it, and has its operands; of a copy the GPU whose work it is
  std::shared_ptr<const Kernel> kernel;
  std::vector<int32_t> inputs;  ///< indices of plan values; -1 for omitted
  std::vector<int32_t> outputs;
  std::vector<std::string> sources;
  std::vector<std::string> late_symbols;  ///< that the operator's fields name and only running tells
  std::string description;                ///< the expression that runs, for inspection
  std::vector<PackedUse> packed;          ///< the constants that its kernel reads in packed form
  std::vector<DeviceWeights> on_device;   ///< those of them that it reads in its device's memory
};

/// The result of compilation: plain data beside the kernels.
struct Plan {
  std::vector<PlanValue> values;
  std::vector<PlanStep> steps;
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;

  /// The host, and the GPUs that run steps, in order of their numbers.
  std::vector<DeviceId> devices() const;
  /// Follows aliases and slices to the value that has storage.
  int32_t root(int32_t value) const;
  /// Whether rows follow each other without gaps.
  bool is_dense(int32_t value) const;
};

/// One line a step: name, tactic, operands with types.
std::string to_string(const Plan& plan);

}  // namespace camshaft

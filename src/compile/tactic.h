// One way of running a region, as a value.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/place.h"

namespace camshaft {

/// What tells the variants of a tactic apart: named numbers in a fixed order, e.g. "tile=4,rows=8".
class TacticParameters {
 public:
  TacticParameters() = default;
  TacticParameters(std::initializer_list<std::pair<const char*, int64_t>> numbers)
      : numbers_(numbers.begin(), numbers.end()) {}

  bool empty() const { return numbers_.empty(); }
  /// Throws Error(internal) when there is no such parameter.
  int64_t operator[](std::string_view name) const;
  std::string str() const;
  bool operator==(const TacticParameters&) const = default;

 private:
  std::vector<std::pair<std::string, int64_t>> numbers_;
};

/// How a tactic's results may differ from those of the plain computation, but for the order of its sums. Each kind
/// includes those before it.
enum class Deviation : uint8_t {
  none,
  specials,  ///< a NaN or an infinity reaches neighbouring results too (Winograd F(2,3): all of its tile)
  rounding,  ///< it rounds noticeably more (Winograd F(4,3)): only for builds that verify
};

/// By how much of a step numbers may be off before they are rounded to 8 bits, where a tactic says that it moves_steps:
/// verification allows as much near the edge between two steps, and no other value.
constexpr double moved_by_steps = 0x1p-6;

/// One variant of a tactic for one region, as the families of a backend's kernels offer them.
struct TacticOffer {
  TacticParameters parameters = {};  ///< empty for a tactic without variants
  double seconds = 0;                ///< expected at the optimum shapes, see Tactic
  Deviation deviation = Deviation::none;
  int64_t more_weight_bytes = 0;  ///< of its packed weights than the constants have; 0 for small differences
  bool moves_steps = false;       ///< see moved_by_steps
};

/// One way of running a region: a name with all its parameters, and what the cost model expects of it.
struct Tactic {
  std::string name;              ///< e.g. "gemm", "winograd", "reference"
  double estimated_seconds = 0;  ///< at the optimum shapes, on one thread
  Deviation deviation = Deviation::none;
  TacticParameters parameters = {};
  Place place = Place::host;      ///< of its kernel
  int64_t more_weight_bytes = 0;  ///< see TacticOffer
  bool moves_steps = false;       ///< see moved_by_steps

  /// "gemm", "winograd(tile=4)": what engines, lock files and timing caches record. Unique among a region's tactics.
  std::string str() const { return parameters.empty() ? name : name + "(" + parameters.str() + ")"; }
};

/// What a layer was built for, as Tactic::str() has it: a tactic for the first profile's optimum, and those of further
/// profiles that have another.
struct TacticChoice {
  std::string first;                 ///< empty: none was chosen
  std::vector<std::string> further;  ///< of the second profile on; empty: the same. No element: all have the same
  bool operator==(const TacticChoice&) const = default;
};

}  // namespace camshaft

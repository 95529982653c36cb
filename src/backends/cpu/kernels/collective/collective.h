// What ranks do together (ops::Collective), part by part as it comes in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "ir/ops/collective.h"

namespace camshaft::cpu {

/// Whether reductions of it are computed here: of f32, f64, i32 and i64.
bool reduces_type(DType dtype);

struct CollectiveRun {
  ops::Collective op;
  std::string call;  ///< what all ranks say alike
  DType dtype = DType::f32;
  int64_t outer = 1;  ///< of the operand: before the axis …
  int64_t inner = 1;  ///< … and from it on

  /// By the communicator of the calling thread; where there is none it rehearses (base/communicator.h).
  void run(const std::byte* x, std::byte* y) const;

 private:
  void take(int own, int rank, size_t offset, const std::byte* part, size_t bytes, std::byte* y) const;
};

}  // namespace camshaft::cpu

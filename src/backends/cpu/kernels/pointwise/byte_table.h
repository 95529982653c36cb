// Functions of one operand of 8 bits, looked up.
#pragma once

#include <array>
#include <cstdint>

#include "base/thread_pool.h"
#include "compile/region/scalar_program.h"

namespace camshaft::cpu {

/// All results of a function of a byte, of 1 or 4 bytes each.
class ByteTable {
 public:
  /// A program with one input, of 8 bits, and one output, of 8 or 32. Throws Error(unsupported) as Pointwise does.
  explicit ByteTable(const ScalarProgram& program);

  /// out[i] = function(in[i]). They may be the same memory where results are bytes.
  void run(ThreadPool& pool, int64_t count, const uint8_t* in, void* out) const;

  /// The 256 results, of 8 bits each; null where they have 32.
  const uint8_t* bytes() const { return width_ == 1 ? bytes_.data() : nullptr; }

 private:
  int64_t width_;
  std::array<uint8_t, 256> bytes_{};
  std::array<uint32_t, 256> words_{};
};

}  // namespace camshaft::cpu

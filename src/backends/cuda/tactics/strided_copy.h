// Copies between strided tensors on a GPU.
#pragma once

#include <array>
#include <vector>

#include "backends/cuda/tactic.h"
#include "compile/region/move_view.h"
#include "ir/ops/broadcast.h"

namespace camshaft::cuda {

/// The kernels of device/copy.cuh, by the logarithm of an element's bytes.
struct CopyKernels {
  explicit CopyKernels(const Workshop& workshop);

  std::shared_ptr<const Device> device;  // outlives the functions
  std::array<Function, 5> copy, tile;
  std::array<Function, 4> gather;
  std::array<Function, 2> packed_tile;
};

/// Throws Error(unsupported) for more elements than one launch counts; `what` is "a copy".
void check_elements(int64_t elements, const char* what);
/// The logarithm of the bytes of an element, a power of two: how kernels for widths are listed.
size_t log_of(int64_t width);
/// Threads of a block, of kernels where it hardly matters.
constexpr unsigned threads_a_block = 256;
/// Blocks for so many threads of work in blocks of `threads`; where there are many, each does several rounds.
unsigned blocks_for(int64_t items, unsigned threads);

/// The most elements, a power of two and at most `most`, that each chunk along the last dim may have so that it lies
/// side by side in all operands: sizes and strides are multiples of it.
int64_t chunk_elements(const ops::LoopNest& nest, int64_t most);

/// A move made ready for one shape: chooses between wide elements, transposition through shared memory, and single
/// elements.
class StridedCopy {
 public:
  /// `width`: bytes of an element, 1 to 8. Throws Error(unsupported) for more than 2^31 elements. At most 8 dims.
  StridedCopy(std::shared_ptr<const CopyKernels> kernels, int64_t width, const StridedMove& move);
  /// `in` and `out` are the tensors' first elements, aligned to their width at least.
  void run(const Stream& stream, const std::byte* in, std::byte* out) const;

 private:
  struct Way {
    const Function* function;
    std::vector<std::byte> parameter;
    unsigned blocks;
    uintptr_t in_alignment, out_alignment;
  };
  void add_ways(const ops::LoopNest& nest, int64_t width);
  bool add_tiles(const ops::LoopNest& nest, int64_t width);
  void add_gather(const ops::LoopNest& nest);

  std::shared_ptr<const CopyKernels> kernels_;
  int64_t width_, start_;  // bytes
  std::vector<Way> ways_;  // the best first; empty: nothing to copy
};

}  // namespace camshaft::cuda

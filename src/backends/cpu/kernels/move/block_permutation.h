// Elements of short blocks that change places within them, as many small transposes do.
#pragma once

#include <cstdint>
#include <vector>

namespace camshaft::cpu {

/// Each of many blocks in a row, element i of which becomes what element order[i] was.
class BlockPermutation {
 public:
  /// Of a block, whatever the machine and the elements: two vectors.
  static constexpr int64_t most_bytes = 128;

  BlockPermutation() = default;
  /// `width`: bytes an element, 1, 2, 4, 8 or 16. Is empty where no vectors hold a block: beyond two of them, which
  /// are 16 bytes of elements below 4 bytes.
  BlockPermutation(int64_t width, const std::vector<int64_t>& order);

  bool empty() const { return block_ == 0; }
  int64_t block_bytes() const { return block_; }
  /// Of `count` blocks. They do not overlap.
  void run(const char* in, char* out, int64_t count) const;

 private:
  bool small_ = false;  // vectors of bytes, or of words of 4 bytes
  int64_t block_ = 0;   // bytes
  /// Of every byte, or word, of a block: where it comes from.
  std::vector<uint8_t> from_;
};

}  // namespace camshaft::cpu

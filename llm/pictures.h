// The pictures of a prompt: rows that stand in for the embeddings of placeholder tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "llm/block_pool.h"

namespace camshaft::llm {

/// Of a token in its sequence: with M-RoPE in time, down and across a picture; of text, and without it, all are equal.
using Position = std::array<int32_t, 3>;

/// What a tower makes of a picture: known before its request runs, maybe not when that is added.
struct ImageRows {
  size_t count = 0;                                  ///< of elements
  std::shared_ptr<const std::vector<float>> values;  ///< [rows, the model's width]; null: not known yet
};

struct Picture {
  int32_t begin = 0;                    ///< the first of its placeholder tokens in the prompt
  int32_t rows = 0;                     ///< that it has, and placeholders
  int32_t height = 0, width = 0;        ///< of these, where the model has M-RoPE: height * width = rows
  std::array<uint64_t, 2> digest = {};  ///< of its content, which keys and values are found again by
  std::shared_ptr<const ImageRows> embeddings;
};

/// Samples of a request share one. What it needs per block is computed ahead: decoding allocates nothing.
class Pictures {
 public:
  /// `pictures`: by their places in the prompt, apart from each other. `salt`: of the request.
  Pictures(std::vector<Picture> pictures, int32_t block_size, uint64_t salt);

  std::span<const Picture> all() const { return pictures_; }
  /// Whether the rows of all are known.
  bool are_ready() const;
  /// Of a token of the prompt or of the text behind it. A picture is as long in time as it is high or wide, and what
  /// follows goes on from there (Wang et al., "Qwen2-VL", 2024, 2.1: M-RoPE).
  Position position(int32_t token) const;
  /// Blocks with placeholders differ by the pictures that these are of, and by where each begins.
  BlockSalts salts() const { return {salt_, salts_}; }

 private:
  std::vector<Picture> pictures_;
  std::vector<int32_t> moved_;  ///< by each: what is to be added to the places of tokens behind it
  uint64_t salt_;
  std::vector<uint64_t> salts_;  ///< of the blocks up to the last picture's
};

}  // namespace camshaft::llm

// How the hidden states of a prompt become its embedding.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace camshaft::llm {

enum class Pooling {
  none,  ///< the model's rows are logits: it generates text
  last,  ///< the last token's hidden state
  cls,   ///< the first one's
  mean,  ///< the mean of all
};

/// "last", "cls" or "mean", in small or capital letters. Throws Error(invalid_argument) for anything else.
Pooling parse_pooling(std::string_view name);

/// Tokens [begin, end) of a prompt.
struct PooledTokens {
  int32_t begin = 0, end = 0;
};

/// Of tokens [begin, end) of a prompt of `length`, which are computed in a step, those whose rows are pooled.
PooledTokens pooled_tokens(Pooling pooling, PooledTokens computed, int32_t length);

/// Adds rows of sums.size() elements to the sums, one after the other: how a prompt is cut into steps changes nothing.
void add_rows(std::span<const float> rows, std::span<double> sums);

/// The embedding, of the sums of all rows of a prompt. False where an element is no finite number.
bool finish_embedding(Pooling pooling, std::span<const double> sums, int32_t length, std::span<float> embedding);

}  // namespace camshaft::llm

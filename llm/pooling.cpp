#include "llm/pooling.h"

#include <cmath>
#include <string>

#include "camshaft/error.hpp"

namespace camshaft::llm {

Pooling parse_pooling(std::string_view name) {
  if (name == "last" || name == "LAST") return Pooling::last;
  if (name == "cls" || name == "CLS") return Pooling::cls;
  if (name == "mean" || name == "MEAN") return Pooling::mean;
  throw Error(ErrorCode::invalid_argument,
              "pooling_type is '" + std::string(name) + "'; last, cls and mean are possible");
}

PooledTokens pooled_tokens(Pooling pooling, PooledTokens computed, int32_t length) {
  const auto [begin, end] = computed;
  switch (pooling) {
    case Pooling::none:
      return {end, end};
    case Pooling::last:
      return end == length ? PooledTokens{end - 1, end} : PooledTokens{end, end};
    case Pooling::cls:
      return begin == 0 && end > 0 ? PooledTokens{0, 1} : PooledTokens{end, end};
    case Pooling::mean:
      return computed;
  }
  return {end, end};
}

void add_rows(std::span<const float> rows, std::span<double> sums) {
  for (size_t row = 0; row + sums.size() <= rows.size(); row += sums.size())
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(rows[row + i]);
}

bool finish_embedding(Pooling pooling, std::span<const double> sums, int32_t length, std::span<float> embedding) {
  const double count = pooling == Pooling::mean ? length : 1;
  bool is_finite = true;
  for (size_t i = 0; i < embedding.size(); ++i) {
    embedding[i] = static_cast<float>(sums[i] / count);
    is_finite = is_finite && std::isfinite(embedding[i]);
  }
  return is_finite;
}

}  // namespace camshaft::llm

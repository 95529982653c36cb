#include "llm/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "llm/row_kernels.h"

namespace camshaft::llm {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr int32_t no_tie = std::numeric_limits<int32_t>::max();

// Neighbours whose weights are summed apart: a draw looks at the sums, then at one block.
constexpr size_t block_size = 1024;
// So many of the likeliest tokens are most often all that top-p leaves, and sorted in 8 us.
constexpr size_t usual_nucleus = 256;
// A flat distribution is split by weight: 32 buckets for each power of two, down from 1.
constexpr int bucket_shift = 18;
constexpr uint32_t bits_of_one = 0x3F800000;
constexpr size_t mass_buckets = (bits_of_one >> bucket_shift) + 1;

size_t bucket_of(float weight) {
  return (bits_of_one - std::min(std::bit_cast<uint32_t>(weight), bits_of_one)) >> bucket_shift;
}

}  // namespace

Sampler::Sampler(int32_t vocabulary)
    : size_(static_cast<size_t>(vocabulary)),
      maxima_(chunk_count(size_)),
      scratch_(std::max(chunk_count(size_), block_size)),
      masses_(mass_buckets) {
  candidates_.reserve(size_);
  cumulative_.reserve(std::max(size_, block_size));
}

Sampler::Problem Sampler::prepare(float* logits, const SamplingState& state, const KnownRow& known) {
  const SamplingParams& params = *state.params;
  if (known.likeliest >= 0 && params.is_greedy() && !params.logprobs && !changes(state)) {
    row_ = logits;
    kind_ = Kind::likeliest;
    likeliest_ = static_cast<int32_t>(known.likeliest);
    largest_ = known.largest;
    if (largest_ == minus_infinity) return Problem::nothing_allowed;
    return std::isfinite(largest_) ? Problem::none : Problem::not_finite;
  }
  if (const Problem problem = read(logits, state); problem != Problem::none) return problem;
  likeliest_ = likeliest();
  kind_ = Kind::likeliest;
  if (params.is_greedy()) return Problem::none;

  scale_ = 1 / params.temperature;
  const float least = params.min_p > 0 ? largest_ + params.temperature * std::log(params.min_p) : minus_infinity;
  const auto top_k = static_cast<size_t>(std::max(params.top_k, 0));
  if (top_k > 0 && top_k < size_) {
    find_top(top_k);
    std::ranges::sort(candidates_, likelier);
    choose_from_list(0, least, params.top_p);
  } else if (params.top_p < 1) {
    choose_from_nucleus(least, params.top_p);
  } else {
    last_tie_ = no_tie;
    choose_from_all(least);
  }
  return Problem::none;
}

// Changes the row as the state says, keeps what logprobs need of it before, and finds the largest.
Sampler::Problem Sampler::read(float* logits, const SamplingState& state) {
  row_ = logits;
  RowMaximum maximum = find_maxima(logits, size_, maxima_.data());
  if (maximum.has_invalid) return Problem::not_finite;
  largest_ = maximum.value;
  const bool is_changed = changes(state);
  if (state.params->logprobs) {
    if (is_changed) copy_.assign(logits, logits + size_);
    keep_logprobs(is_changed ? copy_.data() : logits, *state.params->logprobs);
  }
  if (is_changed) {
    change(logits, state);
    maximum = find_maxima(logits, size_, maxima_.data());
    if (maximum.has_invalid) return Problem::not_finite;
    largest_ = maximum.value;
  }
  return largest_ == minus_infinity ? Problem::nothing_allowed : Problem::none;
}

bool Sampler::changes(const SamplingState& state) const {
  const SamplingParams& params = *state.params;
  return !state.allowed.empty() || !params.logit_bias.empty() || state.generated < params.min_tokens ||
         !params.suppress_tokens.empty() || (state.generated == 0 && !params.begin_suppress_tokens.empty()) ||
         params.timestamps.has_value() || (params.has_penalties() && state.counts != nullptr);
}

void Sampler::change(float* logits, const SamplingState& state) const {
  const SamplingParams& params = *state.params;
  if (!state.allowed.empty()) {
    for (size_t begin = 0; begin < size_; begin += 32) {
      const size_t end = std::min(size_, begin + 32);
      const uint32_t word = state.allowed[begin / 32];
      if (word == 0) {
        std::fill(logits + begin, logits + end, minus_infinity);
      } else if (word != ~uint32_t{0}) {
        for (size_t i = begin; i < end; ++i)
          if ((word >> (i - begin) & 1) == 0) logits[i] = minus_infinity;
      }
    }
  }
  if (state.generated < params.min_tokens) {
    for (const int32_t token : state.eos_token_ids) logits[token] = minus_infinity;
    for (const int32_t token : params.stop_token_ids) logits[token] = minus_infinity;
  }
  for (const int32_t token : params.suppress_tokens) logits[token] = minus_infinity;
  if (state.generated == 0)
    for (const int32_t token : params.begin_suppress_tokens) logits[token] = minus_infinity;
  if (params.timestamps) {
    const int32_t end = state.eos_token_ids.empty() ? params.timestamps->begin : std::ranges::min(state.eos_token_ids);
    apply_timestamp_rules(*params.timestamps, state.text, end, {logits, size_});
  }
  for (const auto& [token, bias] : params.logit_bias) logits[token] += bias;
  if (state.counts == nullptr || !params.has_penalties()) return;
  for (const TokenCounts::Entry& entry : state.counts->entries()) {
    float& logit = logits[entry.token];
    if (entry.in_prompt || entry.generated > 0)
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    logit -= params.frequency_penalty * static_cast<float>(entry.generated);
    if (entry.generated > 0) logit -= params.presence_penalty;
  }
}

int32_t Sampler::likeliest() const {
  const size_t chunk = static_cast<size_t>(std::ranges::find(maxima_, largest_) - maxima_.begin());
  size_t token = chunk * chunk_size;
  while (row_[token] != largest_) ++token;
  return static_cast<int32_t>(token);
}

// The `count` likeliest tokens of row_, fewer where others are not allowed, in any order.
void Sampler::find_top(size_t count) {
  candidates_.clear();
  count = std::min(count, size_);
  // Each of the `count` chunks with the largest maxima has a logit that is not below the smallest of these.
  float least = minus_infinity;
  if (count > 0 && count <= maxima_.size()) {
    std::ranges::copy(maxima_, scratch_.begin());
    const auto end = scratch_.begin() + static_cast<std::ptrdiff_t>(maxima_.size());
    const auto nth = scratch_.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(scratch_.begin(), nth, end, std::greater<>());
    least = *nth;
  }
  for (size_t chunk = 0; chunk < maxima_.size(); ++chunk) {
    if (maxima_[chunk] < least) continue;
    const size_t end = std::min(size_, (chunk + 1) * chunk_size);
    for (size_t i = chunk * chunk_size; i < end; ++i)
      if (row_[i] >= least && row_[i] > minus_infinity) candidates_.push_back({row_[i], static_cast<int32_t>(i)});
  }
  if (candidates_.size() <= count) return;
  std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(count), candidates_.end(),
                   likelier);
  candidates_.resize(count);
}

// Of the sorted candidates. `total`: the weights of all tokens that top-p looks at; 0: of the candidates.
void Sampler::choose_from_list(double total, float least, float top_p) {
  kind_ = Kind::list;
  cumulative_.clear();
  double sum = 0;
  for (const Candidate& candidate : candidates_) {
    if (candidate.logit < least) break;
    sum += std::exp(static_cast<double>((candidate.logit - largest_) * scale_));
    cumulative_.push_back(sum);
  }
  if (top_p >= 1) return;
  const double wanted = static_cast<double>(top_p) * (total > 0 ? total : sum);
  const auto kept = std::ranges::lower_bound(cumulative_, wanted) - cumulative_.begin() + 1;
  if (kept < std::ssize(cumulative_)) cumulative_.resize(static_cast<size_t>(kept));
}

void Sampler::choose_from_nucleus(float least, float top_p) {
  weights_.resize(size_);
  const double total = write_exponentials(row_, size_, largest_, scale_, least, weights_.data());
  const double wanted = static_cast<double>(top_p) * total;
  find_top(usual_nucleus);
  std::ranges::sort(candidates_, likelier);
  double sum = 0;
  for (const Candidate& candidate : candidates_)
    if (candidate.logit >= least) sum += std::exp(static_cast<double>((candidate.logit - largest_) * scale_));
  if (sum >= wanted) return choose_from_list(total, least, top_p);

  size_t last = 0;
  last_tie_ = no_tie;
  if (!find_end_of_nucleus(wanted, last)) return choose_from_all(least);
  last_tie_ = candidates_[last].token;
  choose_from_all(candidates_[last].logit);
}

// Puts the tokens around the end of the likeliest ones that weigh `wanted` into the candidates, sorted; `last`: which
// of them is the last one kept. False when all are.
bool Sampler::find_end_of_nucleus(double wanted, size_t& last) {
  std::ranges::fill(masses_, 0.0);
  for (const float each : weights_) masses_[bucket_of(each)] += static_cast<double>(each);
  double sum = 0;
  size_t bucket = 0;
  for (; bucket < mass_buckets && sum + masses_[bucket] < wanted; ++bucket) sum += masses_[bucket];
  if (bucket == mass_buckets) return false;
  candidates_.clear();
  for (size_t i = 0; i < size_; ++i)
    if (bucket_of(weights_[i]) == bucket && weights_[i] > 0) candidates_.push_back({row_[i], static_cast<int32_t>(i)});
  std::ranges::sort(candidates_, likelier);
  for (last = 0; last < candidates_.size(); ++last) {
    sum += static_cast<double>(weight(candidates_[last].logit));
    if (sum >= wanted) return true;
  }
  last = candidates_.empty() ? 0 : candidates_.size() - 1;  // by rounding alone
  return !candidates_.empty();
}

float Sampler::weight(float logit) const {
  float made = 0;
  write_exponentials(&logit, 1, largest_, scale_, minus_infinity, &made);
  return made;
}

// Of all tokens with logits of `least` or more, and of those equal to it up to last_tie_.
void Sampler::choose_from_all(float least) {
  kind_ = Kind::all;
  least_ = least;
  cumulative_.clear();
  for (size_t begin = 0; begin < size_; begin += block_size)
    cumulative_.push_back(sum_exponentials(row_ + begin, std::min(block_size, size_ - begin), largest_, scale_, least));
  if (last_tie_ != no_tie) {
    const double each = static_cast<double>(weight(least));
    for (const Candidate& candidate : candidates_)
      if (candidate.logit == least && candidate.token > last_tie_)
        cumulative_[static_cast<size_t>(candidate.token) / block_size] -= each;
  }
  double sum = 0;
  for (double& block : cumulative_) block = sum += std::max(block, 0.0);
}

int32_t Sampler::draw(double random) {
  if (kind_ == Kind::likeliest) return likeliest_;
  const double wanted = random * cumulative_.back();
  const auto found = static_cast<size_t>(std::ranges::upper_bound(cumulative_, wanted) - cumulative_.begin());
  if (kind_ == Kind::list) return candidates_[std::min(found, cumulative_.size() - 1)].token;
  if (found == cumulative_.size()) return likeliest_;
  const size_t begin = found * block_size, count = std::min(block_size, size_ - begin);
  write_exponentials(row_ + begin, count, largest_, scale_, least_, scratch_.data());
  double sum = found == 0 ? 0 : cumulative_[found - 1];
  int32_t last = likeliest_;
  for (size_t i = 0; i < count; ++i) {
    const auto token = static_cast<int32_t>(begin + i);
    if (scratch_[i] == 0 || (row_[begin + i] == least_ && token > last_tie_)) continue;
    last = token;
    sum += static_cast<double>(scratch_[i]);
    if (sum > wanted) break;
  }
  return last;
}

double Sampler::probability(int32_t token) {
  if (kind_ == Kind::likeliest) return token == likeliest_ ? 1 : 0;
  if (kind_ == Kind::list) {
    for (size_t i = 0; i < cumulative_.size(); ++i)
      if (candidates_[i].token == token)
        return (cumulative_[i] - (i == 0 ? 0 : cumulative_[i - 1])) / cumulative_.back();
    return 0;
  }
  const float logit = row_[token];
  if (logit < least_ || (logit == least_ && token > last_tie_)) return 0;
  return static_cast<double>(weight(logit)) / cumulative_.back();
}

void Sampler::write_probabilities(std::span<float> out) {
  if (kind_ == Kind::all) {
    write_exponentials(row_, size_, largest_, scale_, least_, out.data());
    const auto total = static_cast<float>(cumulative_.back());
    for (float& each : out) each /= total;
    if (last_tie_ == no_tie) return;
    for (const Candidate& candidate : candidates_)
      if (candidate.logit == least_ && candidate.token > last_tie_) out[static_cast<size_t>(candidate.token)] = 0;
    return;
  }
  std::ranges::fill(out, 0.0f);
  if (kind_ == Kind::likeliest) {
    out[static_cast<size_t>(likeliest_)] = 1;
    return;
  }
  double before = 0;
  for (size_t i = 0; i < cumulative_.size(); ++i) {
    out[static_cast<size_t>(candidates_[i].token)] = static_cast<float>((cumulative_[i] - before) / cumulative_.back());
    before = cumulative_[i];
  }
}

int32_t Sampler::verify(int32_t guess, std::span<const float> guessed, double acceptance, double random) {
  if (acceptance * static_cast<double>(guessed[static_cast<size_t>(guess)]) < probability(guess)) return guess;
  weights_.resize(size_);
  write_probabilities(weights_);
  double total = 0;
  for (size_t i = 0; i < size_; ++i)
    total += static_cast<double>(weights_[i] = std::max(weights_[i] - guessed[i], 0.0f));
  if (total <= 0) return draw(random);  // by rounding alone: both are the same
  const double wanted = random * total;
  double sum = 0;
  int32_t last = likeliest_;
  for (size_t i = 0; i < size_ && sum <= wanted; ++i) {
    if (weights_[i] == 0) continue;
    last = static_cast<int32_t>(i);
    sum += static_cast<double>(weights_[i]);
  }
  return last;
}

Sampler::Problem Sampler::likeliest_tokens(float* logits, const SamplingState& state, size_t count,
                                           std::vector<TokenLogprob>& out) {
  if (const Problem problem = read(logits, state); problem != Problem::none) return problem;
  scale_ = state.params->is_greedy() ? 1 : 1 / state.params->temperature;
  const double log_total = std::log(sum_exponentials(logits, size_, largest_, scale_, minus_infinity));
  find_top(count);
  std::ranges::sort(candidates_, likelier);
  for (const Candidate& each : candidates_) {
    const double logprob = static_cast<double>((each.logit - largest_) * scale_) - log_total;
    out.push_back({each.token, static_cast<float>(std::min(logprob, 0.0)), static_cast<int32_t>(out.size()) + 1});
  }
  return Problem::none;
}

Sampler::Problem Sampler::read_logprobs(const float* logits, int32_t count) {
  row_ = logits;
  const RowMaximum maximum = find_maxima(logits, size_, maxima_.data());
  if (maximum.has_invalid) return Problem::not_finite;
  if (maximum.value == minus_infinity) return Problem::nothing_allowed;
  largest_ = maximum.value;
  keep_logprobs(logits, count);
  return Problem::none;
}

// `logits` are row_ or a copy of it, and maxima_ are theirs.
void Sampler::keep_logprobs(const float* logits, int32_t count) {
  raw_ = logits;
  log_total_ = static_cast<double>(largest_) + std::log(sum_exponentials(logits, size_, largest_, 1, minus_infinity));
  raw_top_.clear();
  if (count == 0 || largest_ == minus_infinity) return;
  find_top(static_cast<size_t>(count));
  std::ranges::sort(candidates_, likelier);
  raw_top_.assign(candidates_.begin(), candidates_.end());
}

void Sampler::logprobs(int32_t token, int32_t count, std::vector<TokenLogprob>& out) {
  const auto logprob = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - log_total_); };
  const auto known = std::ranges::find(raw_top_, token, &Candidate::token);
  const auto rank = known != raw_top_.end() ? static_cast<int32_t>(known - raw_top_.begin()) + 1
                                            : static_cast<int32_t>(count_above(raw_, size_, raw_[token])) + 1;
  out.push_back({token, logprob(raw_[token]), rank});
  for (int32_t i = 0; i < count; ++i) {
    if (static_cast<size_t>(i) < raw_top_.size()) {
      out.push_back({raw_top_[static_cast<size_t>(i)].token, logprob(raw_top_[static_cast<size_t>(i)].logit), i + 1});
    } else {
      out.push_back({-1, minus_infinity, 0});  // the model excludes all others
    }
  }
}

}  // namespace camshaft::llm

#include "llm/beam_search.h"

#include <algorithm>
#include <cmath>

namespace camshaft::llm {

BeamSearch::BeamSearch(const BeamSearchParams& params, int32_t prompt_length, int32_t longest,
                       std::vector<int32_t> ends)
    : params_(params),
      width_(static_cast<size_t>(params.beam_width)),
      prompt_length_(prompt_length),
      longest_(longest),
      ends_(std::move(ends)),
      texts_(width_ + 1) {  // one more, that is written into
  candidates_.reserve(2 * width_ * width_);
  cum_logprobs_.reserve(width_);
  cum_logprobs_.assign(1, 0.0);
  next_.reserve(width_);
  for (Text& text : texts_) text.tokens.reserve(static_cast<size_t>(longest));
}

bool BeamSearch::is_end(int32_t token) const {
  return std::ranges::find(ends_, token) != ends_.end();
}

// `length`: with the prompt.
double BeamSearch::score(double cum_logprob, int32_t length) const {
  const int32_t counted = std::max(params_.counts_prompt ? length : length - prompt_length_, 1);
  return cum_logprob / std::pow(static_cast<double>(counted), static_cast<double>(params_.length_penalty));
}

void BeamSearch::advance(std::span<const Row> beams) {
  candidates_.clear();
  int32_t order = 0;
  for (size_t beam = 0; beam < beams.size(); ++beam)
    for (const TokenLogprob& each : beams[beam].candidates)
      candidates_.push_back({static_cast<int32_t>(beam), each.token, order++,
                             cum_logprobs_[beam] + static_cast<double>(each.logprob), is_end(each.token)});
  std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
    return a.cum_logprob != b.cum_logprob ? a.cum_logprob > b.cum_logprob : a.order < b.order;
  });
  next_.clear();
  const auto length = static_cast<int32_t>(beams[0].tokens.size()) + 1;
  const bool is_last = length >= longest_;
  for (const Candidate& candidate : candidates_) {
    const Row& parent = beams[static_cast<size_t>(candidate.parent)];
    if (candidate.ends) {
      // Where the first texts that end are the last ones, an end must be among the likeliest continuations: each beam
      // has one somewhere.
      if (!params_.early_stopping || next_.size() < width_) complete(parent, candidate, true);
    } else if (next_.size() < width_) {
      next_.push_back({candidate.parent, candidate.token, candidate.cum_logprob});
    }
  }
  if (is_last) {  // behind those that have ended, which were there first
    for (const Next& next : next_) {
      if (params_.early_stopping && completed_ == width_) break;
      complete(beams[static_cast<size_t>(next.parent)], {next.parent, next.token, 0, next.cum_logprob, false}, false);
    }
    next_.clear();
    return;
  }
  if (completed_ == width_ && (params_.early_stopping || none_can_come_in(length))) next_.clear();
  cum_logprobs_.clear();
  for (const Next& next : next_) cum_logprobs_.push_back(next.cum_logprob);
}

// Probabilities only fall: the best score that a beam may still have is that of its own probability with the length
// that divides it by most. `length`: of the beams.
bool BeamSearch::none_can_come_in(int32_t length) const {
  if (next_.empty()) return true;
  const double best = score(next_.front().cum_logprob, params_.length_penalty >= 0 ? longest_ : length);
  return best <= texts_[completed_ - 1].score;
}

void BeamSearch::complete(const Row& beam, const Candidate& candidate, bool has_ended) {
  const auto length = static_cast<int32_t>(beam.tokens.size());
  const double scored = score(candidate.cum_logprob, has_ended ? length : length + 1);
  if (completed_ == width_ && scored <= texts_[width_ - 1].score) return;
  Text& made = texts_[completed_];  // the spare one, where all others are in use
  made.tokens.assign(beam.tokens.begin(), beam.tokens.end());
  made.tokens.push_back(candidate.token);
  made.cum_logprob = candidate.cum_logprob;
  made.score = scored;
  made.has_ended = has_ended;
  for (size_t place = completed_; place > 0 && texts_[place - 1].score < scored; --place)
    std::swap(texts_[place - 1], texts_[place]);
  completed_ = std::min(completed_ + 1, width_);
}

}  // namespace camshaft::llm

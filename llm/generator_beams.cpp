// What a generator does for requests that are searched by beams.
#include <algorithm>

#include "llm/generator.h"

namespace camshaft::llm {

void Generator::begin_beams(Entry& entry, int32_t prompt_length, int32_t longest) {
  const SamplingParams& params = *entry.samples.front()->params;
  std::vector<int32_t> ends = params.stop_token_ids;
  if (!params.ignore_eos) ends.insert(ends.end(), config_.eos_token_ids.begin(), config_.eos_token_ids.end());
  entry.beams = std::make_unique<BeamGroup>(BeamSearch(*params.beam_search, prompt_length, longest, std::move(ends)));
  BeamGroup& group = *entry.beams;
  const size_t width = entry.samples.size();
  for (std::vector<Sequence*>* list : {&group.beams, &group.idle, &group.next, &group.free}) list->reserve(width);
  group.rows.reserve(width);
  for (const std::unique_ptr<Sequence>& each : entry.samples) {
    each->beams = &group.beams;
    each->drawn_logprobs.reserve(2 * width);
    (group.beams.empty() ? group.beams : group.idle).push_back(each.get());
  }
  Sequence& first = *group.beams.front();
  first.fork_blocks = first.forks;
}

// Of requests whose beams had tokens in this step.
void Generator::advance_beams() {
  for (const RequestId request : stepped_beams_) {
    Entry& entry = requests_.at(request);
    entry.beams->is_stepped = false;
    if (failure_.empty()) {
      advance_beams(*entry.beams);
    } else {
      fail_beams(*entry.beams, failure_);
    }
  }
  stepped_beams_.clear();
}

void Generator::advance_beams(BeamGroup& group) {
  const auto waits = [](const Sequence* beam) { return beam->slot >= 0 && beam->missing() == 0; };
  for (const Sequence* const beam : group.beams)
    if (waits(beam) && beam->problem == Sampler::Problem::not_finite)
      return fail_beams(group, message_of(beam->problem));
  if (!waits(group.beams.front())) return;
  bool has_forked = false;
  for (Sequence* const beam : group.beams) {
    if (beam->slot >= 0) continue;
    Sequence& first = *group.beams.front();
    const auto differs = std::ranges::mismatch(first.tokens, beam->tokens).in1;
    scheduler_.fork(first, *beam, static_cast<int32_t>(differs - first.tokens.begin()));
    has_forked = true;
  }
  if (has_forked || !std::ranges::all_of(group.beams, waits)) return;

  group.rows.clear();
  for (const Sequence* const beam : group.beams) group.rows.push_back({beam->tokens, beam->drawn_logprobs});
  group.search.advance(group.rows);
  if (group.search.next().empty()) return finish_beams(group);
  take_next_beams(group);
}

// The first that goes on behind a beam is that beam; others take what beams without a continuation leave, or begin.
void Generator::take_next_beams(BeamGroup& group) {
  const std::span<const BeamSearch::Next> next = group.search.next();
  group.next.assign(next.size(), nullptr);
  group.free.assign(group.beams.begin(), group.beams.end());
  for (size_t place = 0; place < next.size(); ++place) {
    const auto parent = static_cast<size_t>(next[place].parent);
    std::swap(group.next[place], group.free[parent]);
  }
  std::erase(group.free, nullptr);
  for (size_t place = 0; place < next.size(); ++place) {
    if (group.next[place] != nullptr) continue;
    Sequence& parent = *group.beams[static_cast<size_t>(next[place].parent)];
    std::vector<Sequence*>& unused = group.free.empty() ? group.idle : group.free;
    Sequence& child = *unused.back();
    unused.pop_back();
    child.tokens.assign(parent.tokens.begin(), parent.tokens.end());
    if (child.slot >= 0) {
      scheduler_.replace(child, parent);
    } else {
      // One of those that run has room for it.
      const auto holder = std::ranges::find_if(group.beams, [](const Sequence* beam) { return beam->forks > 0; });
      --(*holder)->forks;
      ++parent.forks;
      scheduler_.fork(parent, child, parent.computed);
    }
    group.next[place] = &child;
  }
  for (Sequence* const unused : group.free) {
    scheduler_.unfork(*unused, *group.next.front());
    group.idle.push_back(unused);
  }
  group.beams.assign(group.next.begin(), group.next.end());
  for (size_t place = 0; place < next.size(); ++place) group.beams[place]->tokens.push_back(next[place].token);
  statistics_.generated += std::ssize(next);
}

// An event for each text, by rank.
void Generator::finish_beams(BeamGroup& group) {
  const Sequence& first = *group.beams.front();
  if (group.search.texts().empty()) return fail_beams(group, message_of(Sampler::Problem::nothing_allowed));
  int32_t rank = 0;
  for (const BeamSearch::Text& text : group.search.texts()) {
    Event& event = begin_event(first);
    event.sample = rank++;
    const auto begin = text.tokens.begin() + first.prompt_length;
    event_tokens_.insert(event_tokens_.end(), begin, text.tokens.end());
    event.cumulative_logprob = text.cum_logprob;
    event.finish = text.has_ended ? FinishReason::stop : FinishReason::length;
    if (text.has_ended && !is_eos(first, text.tokens.back())) event.stop_token = text.tokens.back();
  }
  end_beams(first.request);
}

void Generator::fail_beams(BeamGroup& group, const std::string& message) {
  Event& event = begin_event(*group.beams.front());
  event.sample = 0;
  event.finish = FinishReason::error;
  event.error = message;
  end_beams(event.request);
}

void Generator::end_beams(RequestId request) {
  const auto found = requests_.find(request);
  for (const std::unique_ptr<Sequence>& each : found->second.samples) scheduler_.remove(*each);
  requests_.erase(found);
}

}  // namespace camshaft::llm

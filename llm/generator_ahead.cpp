// Steps that are started before what is in front of them is known: a GPU goes on while the host tells what the last one
// brought. In llm_gpu.py a step of one sequence of a 1B model had the GPU wait 35 us for that.
#include <algorithm>

#include "llm/generator.h"

namespace camshaft::llm {

// All but the tokens is known of the step behind one that decodes: where texts may end by a token, what was computed
// behind that is read by nobody.
bool Generator::can_start_next() const {
  if (!model_.starts_ahead() || draft_ != nullptr || stepped_.empty() || inputs_.reads_logits) return false;
  if (stepped_.size() != scheduler_.running().size() || !scheduler_.lets_none_in()) return false;
  if (inputs_.input_ids.size() != inputs_.logits_indices.size()) return false;
  for (size_t i = 0; i < stepped_.size(); ++i) {
    const Sequence& sequence = *stepped_[i];
    // Of a step that was itself started ahead, rows of texts that have ended meanwhile are left out.
    if (sequence.first_row != static_cast<int32_t>(i)) return false;
    if (sequence.scheduled != 1 || sequence.rows != 1 || sequence.missing() != 1) return false;
    // Guesses are of the tokens that are not known yet.
    if (sequence.ngrams != nullptr && sequence.takes_guesses()) return false;
    if (sequence.forks > 0 || sequence.beams != nullptr || sequence.length() + 1 >= sequence.longest) return false;
  }
  return true;
}

// What goes wrong here is left to the step itself, which is planned as if nothing had been tried.
void Generator::start_next() {
  for (Sequence* const sequence : stepped_)
    if (!scheduler_.reserve_next(*sequence)) return;
  BlockPool& pool = scheduler_.pool();
  try {
    if (!pool.leaving().empty()) {
      model_.offload_blocks(pool.leaving());
      pool.finish_copies();
    }
    batch_.clear();
    for (const Sequence* const sequence : stepped_) {
      batch_.begin_sequence(sequence->computed + 1, sequence->blocks, sequence->cross.get(), sequence->pictures.get(),
                            sequence->lora);
      batch_.add_tokens(std::span(sequence->tokens).last(1));  // in the place of the one that nobody knows yet
      batch_.add_row(0);
    }
    const auto size = [](std::span<const int32_t> values) { return static_cast<int32_t>(values.size()); };
    StepInputs next = batch_.padded_to({size(inputs_.input_ids), size(inputs_.past), size(inputs_.logits_indices)});
    next.reads_logits = false;
    model_.start(next, true);
    inputs_ = next;
  } catch (const std::exception&) {
    pool.abandon_copies();
    return;
  }
  for (const Sequence* const sequence : stepped_)
    ahead_.push_back({sequence->request, sequence->sample, sequence->first_row});
}

// The step that was started becomes the one that is planned, without those that have ended since. Where it is not what
// is wanted any more (a text has got a mask), it is waited for, and planned again: it writes the same keys and values.
bool Generator::take_started() {
  if (ahead_.empty()) return false;
  bool is_wanted = true;
  for (const Ahead& each : ahead_) {
    const auto found = requests_.find(each.request);
    if (found == requests_.end()) continue;
    Sequence* const sequence = found->second.samples[static_cast<size_t>(each.sample)].get();
    if (sequence == nullptr) continue;
    is_wanted = is_wanted && !sequence->reads_logits();
    sequence->scheduled = sequence->rows = 1;
    sequence->first_row = each.row;
    stepped_.push_back(sequence);
  }
  ahead_.clear();
  if (is_wanted && !stepped_.empty()) {
    count_step();
    return true;
  }
  stepped_.clear();
  forget_started();
  return false;
}

void Generator::forget_started() {
  is_started_ = false;
  try {
    static_cast<void>(model_.finish());
  } catch (const std::exception&) {  // whoever needs the model next hears of it
  }
}

}  // namespace camshaft::llm

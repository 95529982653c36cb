// How requests come to a generator, and go.
#include <xxhash.h>

#include <algorithm>
#include <array>

#include "camshaft/error.hpp"
#include "llm/generator.h"

namespace camshaft::llm {

namespace {

// Keys and values of an adapter are no other's, whatever salts requests bring.
uint64_t salt_of(const Request& request) {
  if (request.lora < 0) return request.salt;
  const std::array<uint64_t, 2> what = {request.salt, static_cast<uint64_t>(request.lora) + 1};
  return XXH3_64bits(what.data(), sizeof what);
}

// Seeds of requests that have none: as different as the finaliser of SplitMix64 makes neighbours.
uint64_t mixed_seed(uint64_t seed, uint64_t request) {
  uint64_t x = seed + request * 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

}  // namespace

void Generator::check_between_steps() const {
  if (is_planned_) throw Error(ErrorCode::invalid_argument, "a step is under way: finish_step() comes first");
}

void Generator::check_cross(const CrossKeys& cross) const {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::invalid_argument, what); };
  if (cross_.table_width == 0) {
    if (cross.length != 0 || !cross.blocks.empty())
      refuse("a request brings keys of an encoder, and the model has no cross attention");
    return;
  }
  const auto blocks = static_cast<int32_t>(std::min<size_t>(cross.blocks.size(), INT32_MAX));
  if (cross.length < 1 || blocks > cross_.table_width || cross.length > int64_t{blocks} * cross_.block_size)
    refuse("a request sees " + std::to_string(cross.length) + " keys of an encoder in " + std::to_string(blocks) +
           " blocks of " + std::to_string(cross_.block_size) + "; 1 to " + std::to_string(cross_.table_width) +
           " blocks with a key or more are needed");
  for (const int32_t block : cross.blocks)
    if (block < 0 || block >= cross_.blocks)
      refuse("a request names block " + std::to_string(block) + " of an encoder's keys, of which there are " +
             std::to_string(cross_.blocks));
}

void Generator::check_pictures(const Request& request) const {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::invalid_argument, what); };
  const int32_t width = model_.image_width();
  if (width == 0 && !request.pictures.empty()) refuse("a request brings pictures, and the model reads text alone");
  int64_t end = 0;
  for (const Picture& picture : request.pictures) {
    const std::string which = "a picture of " + std::to_string(picture.rows) + " rows at token " +
                              std::to_string(picture.begin) + " of the prompt";
    if (picture.rows < 1 || picture.begin < end || picture.begin + int64_t{picture.rows} > std::ssize(request.prompt))
      refuse(which + " lies on another one, or ends behind the prompt, which has " +
             std::to_string(request.prompt.size()) + " tokens");
    end = picture.begin + int64_t{picture.rows};
    if (picture.embeddings == nullptr ||
        picture.embeddings->count != static_cast<size_t>(picture.rows) * static_cast<size_t>(width))
      refuse(which + " has not so many embeddings of " + std::to_string(width) + " elements");
    const bool has_size = model_.has_mrope() || picture.height != 0 || picture.width != 0;
    if (has_size && (picture.height < 1 || int64_t{picture.height} * picture.width != picture.rows))
      refuse(which + " is " + std::to_string(picture.height) + " rows high and " + std::to_string(picture.width) +
             " wide; the model's positions need a size that these fill");
  }
}

void Generator::check_lora(int32_t lora) const {
  if (lora < -1 || lora >= model_.max_loras())
    throw Error(ErrorCode::invalid_argument, "a request names adapter " + std::to_string(lora) +
                                                 ", of which there are " + std::to_string(model_.max_loras()) +
                                                 " (-1 is none)");
}

RequestId Generator::add(Request request) {
  check_between_steps();
  check_cross(request.cross);
  check_pictures(request);
  check_lora(request.lora);
  const auto vocabulary = static_cast<int32_t>(vocabulary_);
  check(request.params, vocabulary);
  for (size_t i = 0; i < request.prompt.size(); ++i)
    if (request.prompt[i] < 0 || request.prompt[i] >= vocabulary)
      throw Error(ErrorCode::invalid_argument,
                  "token " + std::to_string(i) + " of the prompt is " + std::to_string(request.prompt[i]) +
                      ", the vocabulary has tokens 0 to " + std::to_string(vocabulary - 1));
  const auto length = static_cast<int32_t>(std::min<size_t>(request.prompt.size(), INT32_MAX / 2));
  const int32_t room = scheduler_.config().max_model_len - length;
  const bool generates = scheduler_.config().generates;
  if (!generates && (request.params.n != 1 || request.params.beam_search))
    throw Error(ErrorCode::invalid_argument,
                request.params.beam_search
                    ? std::string("beam_search: a prompt has one embedding")
                    : "n is " + std::to_string(request.params.n) + ": a prompt has one embedding");
  const int32_t longest = length + (generates ? std::min(room, request.params.max_tokens.value_or(room)) : 0);
  scheduler_.check_fits(length, longest, request.params);

  const auto params = std::make_shared<const SamplingParams>(std::move(request.params));
  std::shared_ptr<const CrossKeys> cross;
  if (cross_.table_width > 0) cross = std::make_shared<const CrossKeys>(std::move(request.cross));
  std::shared_ptr<const Pictures> pictures;
  if (!request.pictures.empty())
    pictures =
        std::make_shared<const Pictures>(std::move(request.pictures), scheduler_.config().block_size, salt_of(request));
  const RequestId id = ++last_request_;
  Entry entry;
  for (int32_t sample = 0; sample < params->sequences(); ++sample) {
    entry.samples.push_back(make_sequence(request, params, sample, longest));
    entry.samples.back()->cross = cross;
    entry.samples.back()->pictures = pictures;
  }
  entry.alive = params->sequences();
  Sequence& first = *entry.samples.front();
  first.forks = params->sequences() - 1;
  if (params->beam_search) begin_beams(entry, length, longest);
  requests_.emplace(id, std::move(entry));
  scheduler_.add(first);
  return id;
}

std::unique_ptr<Sequence> Generator::make_sequence(const Request& request, std::shared_ptr<const SamplingParams> params,
                                                   int32_t sample, int32_t longest) {
  auto sequence = std::make_unique<Sequence>();
  sequence->request = sequence->arrival = last_request_;
  sequence->sample = sample;
  sequence->priority = request.priority;
  sequence->salt = salt_of(request);
  sequence->lora = request.lora;
  sequence->seed = params->seed.value_or(mixed_seed(config_.seed, last_request_));
  sequence->longest = longest;
  sequence->prompt_length = static_cast<int32_t>(request.prompt.size());
  sequence->tokens.reserve(static_cast<size_t>(longest));
  sequence->tokens.assign(request.prompt.begin(), request.prompt.end());
  sequence->blocks.reserve(static_cast<size_t>(batch_.table_width()));
  sequence->pooled.resize(static_cast<size_t>(model_.hidden_size()));
  if (params->has_penalties()) {
    sequence->counts = std::make_unique<TokenCounts>(std::min(vocabulary_, static_cast<size_t>(longest)));
    for (const int32_t token : request.prompt) sequence->counts->add_prompt(token);
  }
  const int32_t drafts = scheduler_.config().num_speculative_tokens;
  if (drafts > 0 && !params->beam_search) {
    sequence->drafts.reserve(static_cast<size_t>(drafts));
    sequence->drawn.reserve(static_cast<size_t>(drafts) + 1);
    if (draft_ != nullptr) {
      sequence->draft = draft_->make_state(*params);
    } else {
      sequence->ngrams = std::make_unique<NgramIndex>(config_.prompt_lookup_min, config_.prompt_lookup_max,
                                                      static_cast<size_t>(longest));
    }
  }
  if (!params->allowed_token_ids.empty()) {
    sequence->allowed.assign(mask_words(), 0);
    for (const int32_t token : params->allowed_token_ids)
      sequence->allowed[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token % 32);
  }
  if (sample > 0) sequence->prompt_logprobs_from = sequence->prompt_length;  // the first one's are for all
  sequence->params = std::move(params);
  return sequence;
}

bool Generator::abort(RequestId request, int32_t sample) {
  check_between_steps();
  const auto found = requests_.find(request);
  if (found == requests_.end()) return false;
  std::vector<std::unique_ptr<Sequence>>& samples = found->second.samples;
  if (sample >= std::ssize(samples)) return false;
  if (sample >= 0 && found->second.beams == nullptr && (samples[0] == nullptr || samples[0]->forks == 0)) {
    Sequence* const one = samples[static_cast<size_t>(sample)].get();
    if (one == nullptr) return false;
    ended_.push_back({request, sample});
    end(*one);
    return true;
  }
  for (std::unique_ptr<Sequence>& each : samples) {
    if (each == nullptr) continue;
    ended_.push_back({request, each->sample});
    scheduler_.remove(*each);
  }
  requests_.erase(found);
  return true;
}

void Generator::set_allowed_tokens(RequestId request, int32_t sample, std::span<const uint32_t> mask) {
  check_between_steps();
  const auto found = requests_.find(request);
  if (found == requests_.end() || sample < 0 || sample >= std::ssize(found->second.samples) ||
      found->second.samples[static_cast<size_t>(sample)] == nullptr)
    throw Error(ErrorCode::invalid_argument, "there is no sample " + std::to_string(sample) + " of request " +
                                                 std::to_string(request) + ": it has ended, or never was");
  if (found->second.beams != nullptr)
    throw Error(ErrorCode::invalid_argument,
                "beam search has allowed_token_ids for all of its text, and no other mask");
  const size_t words = mask_words();
  if (!mask.empty() && mask.size() != words)
    throw Error(ErrorCode::invalid_argument, "the mask of allowed tokens has " + std::to_string(mask.size()) +
                                                 " words of 32 bits, a vocabulary of " + std::to_string(vocabulary_) +
                                                 " needs " + std::to_string(words));
  Sequence& sequence = *found->second.samples[static_cast<size_t>(sample)];
  sequence.allowed.assign(mask.begin(), mask.end());
  sequence.has_changing_mask = true;
  if (sequence.params->allowed_token_ids.empty()) return;
  std::vector<uint32_t> both(words, 0);
  for (const int32_t token : sequence.params->allowed_token_ids) {
    const uint32_t bit = uint32_t{1} << (token % 32);
    const auto word = static_cast<size_t>(token) / 32;
    both[word] |= mask.empty() ? bit : mask[word] & bit;
  }
  sequence.allowed = std::move(both);
}

}  // namespace camshaft::llm

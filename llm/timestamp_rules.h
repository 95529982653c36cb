// Which tokens Whisper may write where its text is to have timestamps.
//
// Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022, and the rules of its decoder
// (ApplyTimestampRules of openai/whisper, WhisperTimeStampLogitsProcessor of Transformers).
#pragma once

#include <cstdint>
#include <span>

namespace camshaft::llm {

/// Tokens from `begin` on are times, in equal steps, to the end of the vocabulary; they stand in pairs around what is
/// said, but before the end of the text, and do not decrease.
struct TimestampRules {
  int32_t begin = 0;
  int32_t no_timestamps = -1;  ///< the token that promises none, which is excluded; -1: there is none
  int32_t max_initial = -1;    ///< the largest step that the text may begin with; -1: any
  bool operator==(const TimestampRules&) const = default;
};

/// Makes the logits of tokens that may not come next −inf. `text`: the tokens so far; `end_of_text`: the token that
/// ends it, before which ordinary tokens are. Where times together are likelier than each other token, a time is next.
void apply_timestamp_rules(const TimestampRules& rules, std::span<const int32_t> text, int32_t end_of_text,
                           std::span<float> logits);

}  // namespace camshaft::llm

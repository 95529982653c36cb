// Operators on texts.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (a, b) -> a followed by b, broadcast.
struct StringConcat {
  static constexpr std::string_view name = "string_concat";
  static constexpr Traits traits{.kind = OpKind::pointwise,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const StringConcat&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x) -> parts [x's axes, most parts], filled up with empty texts; their counts i64. An empty delimiter splits at runs
/// of white space, whose first and last are dropped. At most `most_splits` cuts from the left, when that is not
/// negative.
struct StringSplit {
  static constexpr std::string_view name = "string_split";
  static constexpr Traits traits = opaque_traits;
  std::string delimiter;
  int64_t most_splits = -1;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("delimiter", self.delimiter);
    visit("most_splits", self.most_splits);
  }
  bool operator==(const StringSplit&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

enum class CaseChange : uint8_t { none, lower, upper };

/// (x [n] or [1, n]) without the stop words, in another case; one empty text when nothing is left. Without stop words
/// any shape stays as it is. Letters are mapped one to one, whatever the locale.
struct StringNormalize {
  static constexpr std::string_view name = "string_normalize";
  static constexpr Traits traits = opaque_traits;
  CaseChange change = CaseChange::none;
  bool is_case_sensitive = false;
  std::vector<std::string> stop_words;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("change", self.change);
    visit("is_case_sensitive", self.is_case_sensitive);
    visit("stop_words", self.stop_words);
  }
  bool operator==(const StringNormalize&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x) -> bool: whether the whole text matches a pattern of base/text/regex.h, which the shape rule checks.
struct RegexMatch {
  static constexpr std::string_view name = "regex_match";
  static constexpr Traits traits{.kind = OpKind::pointwise,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  std::string pattern;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("pattern", self.pattern);
  }
  bool operator==(const RegexMatch&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x [n] or [rows, n]) -> tokens [x's axes, most tokens], filled up with `padding`: the leftmost longest matches of
/// `token`, or, when that is empty, what lies between matches of `separators`; those with at least `least_characters`.
/// com.microsoft's Tokenizer.
struct Tokenize {
  static constexpr std::string_view name = "tokenize";
  static constexpr Traits traits = opaque_traits;
  std::string token;
  std::vector<std::string> separators;
  std::string padding;
  int64_t least_characters = 1;
  bool marks_ends = false;  ///< U+0002 before the tokens of a text and U+0003 behind them
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("token", self.token);
    visit("separators", self.separators);
    visit("padding", self.padding);
    visit("least_characters", self.least_characters);
    visit("marks_ends", self.marks_ends);
  }
  bool operator==(const Tokenize&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

enum class TermWeight : uint8_t { tf, idf, tfidf };

/// (ids i64 [n] or [rows, n], grams i64 [m], columns i64 [g], weights f32 [width]) -> f32 [width] or [rows, width]: how
/// often each n-gram of ids occurs, with up to `most_skipped` ids left out between any two neighbours of it (the same
/// number between all). `gram_counts[k]` of the grams have k + 1 ids; they lie one after the other in `grams`, in order
/// within a length. Lengths outside [least_length, most_length] are not counted.
struct CountTerms {
  static constexpr std::string_view name = "count_terms";
  static constexpr Traits traits = opaque_traits;
  std::vector<int64_t> gram_counts;
  int64_t least_length = 1;
  int64_t most_length = 1;
  int64_t most_skipped = 0;
  TermWeight weight = TermWeight::tf;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("gram_counts", self.gram_counts);
    visit("least_length", self.least_length);
    visit("most_length", self.most_length);
    visit("most_skipped", self.most_skipped);
    visit("weight", self.weight);
  }
  bool operator==(const CountTerms&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::CaseChange> {
  static constexpr std::string_view values[] = {"none", "lower", "upper"};
};
template <>
struct EnumNames<ops::TermWeight> {
  static constexpr std::string_view values[] = {"tf", "idf", "tfidf"};
};
}  // namespace camshaft

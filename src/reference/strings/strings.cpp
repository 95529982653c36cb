// The reference evaluation of string_concat, string_split, string_normalize, regex_match, tokenize and count_terms.
#include "ir/ops/strings.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "base/budget.h"
#include "base/text/regex.h"
#include "base/text/unicode.h"
#include "base/work_scope.h"
#include "base/written_texts.h"
#include "ir/ops/broadcast.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

// The characters of a text, of 4 bytes each, with what they count as.
class Decoded {
 public:
  explicit Decoded(const std::string& text) : claim_(sizeof(char32_t) * text.size()), text_(decode_utf8(text)) {}
  const std::vector<char32_t>& characters() const { return text_; }

 private:
  const MemoryClaim claim_;
  const std::vector<char32_t> text_;
};

std::string changed(const std::string& text, CaseChange change) {
  if (change == CaseChange::none) return text;
  std::string out;
  out.reserve(text.size());  // growing, it would take up to twice as much
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    for (const char c : text) {
      const bool turns = change == CaseChange::lower ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z';
      out.push_back(turns ? static_cast<char>(c ^ 0x20) : c);
    }
    return out;
  }
  const Decoded decoded(text);
  for (const char32_t c : decoded.characters())
    append_utf8(out, change == CaseChange::lower ? to_lower(c) : to_upper(c));
  return out;
}

// A text that a result takes, counted; with capitals it may be longer than what it was made of.
std::string counted(std::string text) {
  count_text(text.size());
  return text;
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Calls `with` for each part of the text.
template <class With>
void for_parts(std::string_view text, std::string_view delimiter, int64_t most, PacedCancellation& cancellation,
               const With& with) {
  int64_t count = 0;
  const auto may_cut = [&] { return most < 0 || count < most; };
  const auto take = [&](std::string_view part) {
    cancellation.did(1 + static_cast<int64_t>(part.size()) / 16);
    ++count;
    with(part);
  };
  if (!delimiter.empty()) {
    for (size_t at; may_cut() && (at = text.find(delimiter)) != std::string_view::npos;) {
      take(text.substr(0, at));
      text.remove_prefix(at + delimiter.size());
    }
    if (!text.empty() || count > 0) take(text);
    return;
  }
  const auto trim = [&] {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  };
  trim();
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  while (!text.empty()) {
    const auto at =
        may_cut() ? static_cast<size_t>(std::find_if(text.begin(), text.end(), is_space) - text.begin()) : text.size();
    take(text.substr(0, at));
    text.remove_prefix(at);
    trim();
  }
}

/// What looking at a text counts as.
int64_t bytes_of(const Tensor& texts, int64_t i) {
  return 1 + static_cast<int64_t>(texts.as<std::string>()[i].size());
}

/// Lists of texts of many lengths, which become one tensor.
class Lists {
 public:
  void add(std::vector<std::string> list) {
    size_t bytes = list.capacity() * sizeof(std::string);
    for (const std::string& text : list) bytes += text.size();
    claims_.emplace_back(bytes);
    longest_ = std::max(longest_, list.size());
    lists_.push_back(std::move(list));
  }

  // Room for one more list, of so many texts that have so many bytes together: a text of commas has as many parts as
  // bytes, each of 32.
  std::vector<std::string>& add(size_t count, size_t bytes) {
    claims_.emplace_back(count * sizeof(std::string) + bytes);
    longest_ = std::max(longest_, count);
    lists_.emplace_back().reserve(count);
    return lists_.back();
  }

  Tensor filled_up(Dims dims, const std::string& padding) && {
    dims.push_back(static_cast<int64_t>(longest_));
    Tensor out(DType::string, std::move(dims));
    std::string* to = out.as_mutable<std::string>();
    PacedCancellation cancellation;
    for (auto& list : lists_)
      for (size_t i = 0; i < longest_; ++i) {
        cancellation.did(1);
        *to++ = i < list.size() ? std::move(list[i]) : padding;
      }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> lists_;
  std::vector<MemoryClaim> claims_;  // of each
  size_t longest_ = 0;
};

}  // namespace

std::vector<Tensor> StringConcat::evaluate(const EvalContext& context) const {
  const Tensor &a = context.input(0), &b = context.input(1);
  Dims dims(std::max(a.dims().size(), b.dims().size()), 1);
  for (const Tensor* t : {&a, &b})
    for (size_t i = 0; i < t->dims().size(); ++i) {
      int64_t& d = dims[dims.size() - t->dims().size() + i];
      if (t->dims()[i] != 1) d = t->dims()[i];  // a mismatch is reported by broadcast_strides
    }
  Tensor out(DType::string, dims);  // first: it refuses sizes whose products overflow
  const LoopNest nest = collapse(dims, {broadcast_strides(a.dims(), dims), broadcast_strides(b.dims(), dims)});
  PacedCancellation cancellation;
  // Calls what it is given with each place of the result and its two texts.
  const auto for_pairs = [&](const auto& with) {
    for_runs(nest, 0, out.size(), [&](int64_t position, const Dims& offsets, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const std::string& first = a.as<std::string>()[offsets[0] + i * nest.strides[0].back()];
        const std::string& second = b.as<std::string>()[offsets[1] + i * nest.strides[1].back()];
        cancellation.did(1 + static_cast<int64_t>(first.size() + second.size()) / 16);
        with(position + i, first, second);
      }
    });
  };
  // A text that is joined with itself 45 times takes 70 TB: what is not allowed must not be begun.
  size_t bytes = 0;
  for_pairs(
      [&](int64_t, const std::string& first, const std::string& second) { bytes += first.size() + second.size(); });
  const MemoryClaim claim(bytes);
  std::string* to = out.as_mutable<std::string>();
  for_pairs([&](int64_t at, const std::string& first, const std::string& second) { to[at] = first + second; });
  return {std::move(out)};
}

std::vector<Tensor> StringSplit::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  Lists lists;
  Tensor counts(DType::i64, x.dims());
  PacedCancellation cancellation;
  for (int64_t i = 0; i < x.size(); ++i) {
    cancellation.did(1);
    const auto for_each_part = [&](const auto& with) {
      for_parts(x.as<std::string>()[i], delimiter, most_splits, cancellation, with);
    };
    size_t count = 0, bytes = 0;
    for_each_part([&](std::string_view part) {
      ++count;
      bytes += part.size();
    });
    counts.as_mutable<int64_t>()[i] = static_cast<int64_t>(count);
    std::vector<std::string>& parts = lists.add(count, bytes);
    for_each_part([&](std::string_view part) { parts.emplace_back(part); });
  }
  return {std::move(lists).filled_up(x.dims(), ""), std::move(counts)};
}

std::vector<Tensor> StringNormalize::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const std::string* from = x.as<std::string>();
  PacedCancellation cancellation;
  if (stop_words.empty()) {
    Tensor out(DType::string, x.dims());
    for (int64_t i = 0; i < x.size(); ++i) {
      cancellation.did(bytes_of(x, i));
      out.as_mutable<std::string>()[i] = counted(changed(from[i], change));
    }
    return {std::move(out)};
  }
  if (x.rank() == 2 && x.dims()[0] != 1)
    fail_rule("stop words are removed from [n] or [1, n], not {}", to_string(x.dims()));
  const auto key = [&](const std::string& word) { return is_case_sensitive ? word : changed(word, CaseChange::lower); };
  std::unordered_set<std::string> stops;
  for (const std::string& word : stop_words) stops.insert(key(word));
  const MemoryClaim claim(static_cast<size_t>(x.size()) / 8);
  std::vector<bool> is_kept;
  for (int64_t i = 0; i < x.size(); ++i) {
    cancellation.did(bytes_of(x, i));
    is_kept.push_back(!stops.contains(key(from[i])));
  }
  Dims dims = x.dims();
  dims.back() = std::max<int64_t>(1, std::count(is_kept.begin(), is_kept.end(), true));
  Tensor out(DType::string, dims);
  auto* to = out.as_mutable<std::string>();
  for (int64_t i = 0; i < x.size(); ++i) {
    if (!is_kept[static_cast<size_t>(i)]) continue;
    cancellation.did(bytes_of(x, i));
    *to++ = counted(changed(from[i], change));
  }
  return {std::move(out)};
}

std::vector<Tensor> RegexMatch::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const Regex regex(pattern);
  Tensor out(DType::boolean, x.dims());
  const auto budget = current_budget();
  constexpr double of_a_state = 100;  // operations of a character
  PacedCancellation cancellation;
  for (int64_t i = 0; i < x.size(); ++i) {
    cancellation.did(bytes_of(x, i));
    if (budget)
      budget->take_operations(of_a_state * static_cast<double>(regex.states()) * static_cast<double>(bytes_of(x, i)));
    out.as_mutable<uint8_t>()[i] = regex.matches_all(Decoded(x.as<std::string>()[i]).characters());
  }
  return {std::move(out)};
}

std::vector<Tensor> Tokenize::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  std::vector<Regex> patterns;
  for (const std::string& separator : separators) patterns.emplace_back(separator);
  if (!token.empty()) patterns.emplace_back(token);
  Lists lists;
  PacedCancellation cancellation;
  for (int64_t i = 0; i < x.size(); ++i) {
    cancellation.did(bytes_of(x, i));
    using Text = std::vector<char32_t>;
    const Decoded text(x.as<std::string>()[i]);
    // Pieces, what they are cut into, and their texts again.
    const MemoryClaim claim((2 * sizeof(char32_t) + 1) * x.as<std::string>()[i].size());
    std::vector<Text> pieces{text.characters()};
    for (const Regex& pattern : patterns) {
      std::vector<Text> cut;
      for (const Text& piece : pieces) {
        size_t from = 0, kept_from = 0;
        const auto keep = [&](size_t begin, size_t end) {
          cut.emplace_back(piece.begin() + static_cast<std::ptrdiff_t>(begin),
                           piece.begin() + static_cast<std::ptrdiff_t>(end));
        };
        while (const auto match = pattern.find(piece, from)) {
          const auto [begin, end] = *match;
          from = end > begin ? end : end + 1;
          if (end > begin) token.empty() ? keep(kept_from, begin) : keep(begin, end);
          if (end > begin) kept_from = end;
          if (from > piece.size()) break;
        }
        if (token.empty()) keep(kept_from, piece.size());
      }
      pieces = std::move(cut);
    }
    std::vector<std::string> list;
    if (marks_ends) list.emplace_back(1, '\x02');
    for (const Text& piece : pieces) {
      if (static_cast<int64_t>(piece.size()) < std::max<int64_t>(least_characters, 1)) continue;
      std::string& word = list.emplace_back();
      for (const char32_t c : piece) append_utf8(word, c);
    }
    if (marks_ends) list.emplace_back(1, '\x03');
    lists.add(std::move(list));
  }
  return {std::move(lists).filled_up(x.dims(), padding)};
}

namespace {

constexpr int64_t ids_at_once = 1 << 12;  // between two looks at the flag

// The columns of n-grams of one length, by a table of their hashes: with a search among 60 of them 10^5 ids took 7.6
// ms.
class GramTable {
 public:
  /// `grams`: count x n, without repeats.
  GramTable(const int64_t* grams, const int64_t* columns, int64_t count, int64_t n)
      : grams_(grams), columns_(columns), n_(n), slots_(std::bit_ceil(static_cast<size_t>(4 * count)), -1) {
    for (int64_t g = 0; g < count; ++g) {
      size_t at = place(grams + g * n, 1);
      while (slots_[at] >= 0) at = next(at);
      slots_[at] = g;
    }
  }

  /// Of the ids that stand `stride` apart; -1 where they are no such n-gram.
  int64_t column_of(const int64_t* ids, int64_t stride) const {
    for (size_t at = place(ids, stride);; at = next(at)) {
      const int64_t g = slots_[at];
      if (g < 0) return -1;
      bool is_equal = true;
      for (int64_t k = 0; k < n_; ++k) is_equal &= grams_[g * n_ + k] == ids[k * stride];
      if (is_equal) return columns_[g];
    }
  }

 private:
  size_t next(size_t at) const { return (at + 1) & (slots_.size() - 1); }
  size_t place(const int64_t* ids, int64_t stride) const {
    uint64_t hash = 0;
    for (int64_t k = 0; k < n_; ++k) hash = (hash ^ static_cast<uint64_t>(ids[k * stride])) * 0x9e3779b97f4a7c15u;
    return static_cast<size_t>(hash >> 32) & (slots_.size() - 1);
  }

  const int64_t *grams_, *columns_;
  int64_t n_;
  std::vector<int64_t> slots_;  // numbers of n-grams
};

}  // namespace

std::vector<Tensor> CountTerms::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const int64_t length = x.dims().back(), width = context.input(3).size();
  const int64_t rows = x.rank() == 2 ? x.dims()[0] : 1;
  const int64_t* grams = context.input(1).as<int64_t>();
  const int64_t* columns = context.input(2).as<int64_t>();
  const float* weights = context.input(3).as<float>();
  Dims dims(x.dims().begin(), x.dims().end() - 1);
  dims.push_back(width);
  Tensor out(DType::f32, dims);
  if (out.size() == 0) return {std::move(out)};  // any number of empty rows
  float* counts = out.as_mutable<float>();

  // One table for each length that is looked for, and how far apart its ids may stand.
  struct Length {
    int64_t n, strides;
    GramTable table;
  };
  std::vector<Length> lengths;
  int64_t first_gram = 0;
  for (int64_t n = 1; n <= std::min<int64_t>(most_length, static_cast<int64_t>(gram_counts.size())); ++n) {
    const int64_t here = gram_counts[static_cast<size_t>(n) - 1];
    if (n >= least_length && here > 0) {
      for (int64_t g = 0; g < here; ++g)
        if (const int64_t column = columns[first_gram + g]; column < 0 || column >= width)
          fail_rule("count_terms: column {} of {} does not exist", column, width);
      const int64_t skips = n == 1 ? 0 : most_skipped;  // single ids have nothing between them
      lengths.push_back({n, skips + 1, GramTable(grams, columns + first_gram, here, n)});
    }
    first_gram += here;
    grams += here * n;
  }
  PacedCancellation cancellation;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t* ids = x.as<int64_t>() + r * length;
    float* row = counts + r * width;
    for (const Length& l : lengths)
      for (int64_t stride = 1; stride <= l.strides && (l.n - 1) * stride < length; ++stride)
        for (int64_t first = 0, last = length - (l.n - 1) * stride; first < last;) {
          const int64_t past = std::min(last, first + ids_at_once);
          cancellation.did((past - first) * l.n);
          for (int64_t at = first; at < past; ++at)
            if (const int64_t column = l.table.column_of(ids + at, stride); column >= 0) row[column] += 1;
          first = past;
        }
    cancellation.did(width);
    for (int64_t i = 0; i < width; ++i) {
      if (weight == TermWeight::idf) row[i] = row[i] > 0 ? weights[i] : 0;
      if (weight == TermWeight::tfidf) row[i] *= weights[i];
    }
  }
  return {std::move(out)};
}

}  // namespace camshaft::ops

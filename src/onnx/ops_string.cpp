// Operators on texts.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/thread_pool.h"
#include "ir/ops/lookup.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/strings.h"
#include "onnx/machine_learning.h"
#include "onnx/quote.h"
#include "reference/elements.h"
#include "reference/ml/lookup.h"

namespace camshaft::onnx {

namespace {

std::vector<std::string> texts(ConvertContext& c, std::string_view name) {
  const AttributeProto* a = c.attribute(name, AttributeType::strings);
  return a ? a->strings : std::vector<std::string>{};
}

Values string_concat(ConvertContext& c) {
  return c.result(ops::StringConcat{}, {c.input(0), c.input(1)});
}

Values string_split(ConvertContext& c) {
  ops::StringSplit op{c.string_attribute("delimiter", ""), -1};
  if (c.has_attribute("maxsplit")) op.most_splits = std::max<int64_t>(c.int_attribute("maxsplit"), -1);
  return add_parts(c, op, {c.input(0)}, {"parts", "counts"});
}

Values string_normalizer(ConvertContext& c) {
  const std::string action = c.string_attribute("case_change_action", "NONE");
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    c.invalid(fmt::format("case_change_action {} is not known", quote(action)));
  using ops::CaseChange;
  const CaseChange change = action == "NONE"    ? CaseChange::none
                            : action == "LOWER" ? CaseChange::lower
                                                : CaseChange::upper;
  const bool is_case_sensitive = c.int_attribute("is_case_sensitive", 0) != 0;
  return c.result(ops::StringNormalize{change, is_case_sensitive, texts(c, "stopwords")}, {c.input(0)});
}

Values regex_full_match(ConvertContext& c) {
  return c.result(ops::RegexMatch{c.string_attribute("pattern")}, {c.input(0)});
}

/// The pool's tokens, each once, in FindKeys' order; and the pool as positions among them.
struct Vocabulary {
  Tensor tokens;
  std::vector<int64_t> pool;
};

Vocabulary vocabulary_of(const Tensor& pool) {
  Vocabulary out;
  const std::vector<int64_t> order = ops::order_of_keys(pool, false);
  out.tokens = Tensor(pool.dtype(), {static_cast<int64_t>(order.size())});
  ops::visit_storage(pool.dtype(), [&]<class T>(const T&) {
    T* to = out.tokens.as_mutable<T>();
    for (const int64_t i : order) *to++ = pool.as<T>()[i];
  });
  ThreadPool alone(1);
  const std::vector<Tensor> inputs{pool, out.tokens};
  const Tensor found = ops::FindKeys{}.evaluate({inputs, {}, {}, {}, alone})[0];
  out.pool.assign(found.as<int64_t>(), found.as<int64_t>() + found.size());
  return out;
}

Values tf_idf_vectorizer(ConvertContext& c) {
  ValueId x = c.input(0);
  const bool is_text = c.dtype(x) == DType::string;
  const Tensor pool = is_text ? strings_tensor(c, "pool_strings") : ints_tensor(c, "pool_int64s");
  if (!pool.defined()) c.invalid(fmt::format("it has no pool for an input of {}", to_string(c.dtype(x))));
  const auto starts = c.ints_attribute("ngram_counts"), columns = c.ints_attribute("ngram_indexes");
  if (!starts || !columns) c.invalid("attributes 'ngram_counts' and 'ngram_indexes' are needed");
  ops::CountTerms op;
  op.least_length = c.int_attribute("min_gram_length");
  op.most_length = c.int_attribute("max_gram_length");
  op.most_skipped = c.int_attribute("max_skip_count");
  const std::string mode = c.string_attribute("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") c.invalid(fmt::format("mode {} is not known", quote(mode)));
  op.weight = mode == "TF" ? ops::TermWeight::tf : mode == "IDF" ? ops::TermWeight::idf : ops::TermWeight::tfidf;

  Vocabulary vocabulary = vocabulary_of(pool);
  std::vector<int64_t> grams, sorted_columns;
  size_t first_gram = 0;
  for (size_t k = 0; k < starts->size(); ++k) {
    const auto n = static_cast<int64_t>(k) + 1;
    const int64_t begin = (*starts)[k], end = k + 1 < starts->size() ? (*starts)[k + 1] : pool.size();
    if (begin < 0 || end < begin || end > pool.size() || (end - begin) % n != 0)
      c.invalid(fmt::format("the {}-grams are elements {} to {} of a pool of {}", n, begin, end, pool.size()));
    const auto count = static_cast<size_t>((end - begin) / n);
    if (count > columns->size() - first_gram)
      c.invalid(fmt::format("{} ngram_indexes are too few for the pool", columns->size()));
    const auto gram = [&](size_t i) { return vocabulary.pool.begin() + begin + static_cast<int64_t>(i) * n; };
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::lexicographical_compare(gram(a), gram(a) + n, gram(b), gram(b) + n);
    });
    for (const size_t i : order) {
      grams.insert(grams.end(), gram(i), gram(i) + n);
      sorted_columns.push_back((*columns)[first_gram + i]);
    }
    op.gram_counts.push_back(static_cast<int64_t>(count));
    first_gram += count;
  }
  constexpr int64_t most_columns = 1 << 24;  // each has a weight, whatever few of them are named
  int64_t width = 0;
  for (const int64_t column : *columns) {
    if (column < 0 || column >= most_columns) c.invalid(fmt::format("ngram_indexes has {}", column));
    width = std::max(width, column + 1);
  }
  auto weights = floats_tensor(c, "weights");
  std::vector<float> by_column(static_cast<size_t>(width), 1.F);
  if (weights.defined()) {
    if (weights.size() != static_cast<int64_t>(columns->size()))
      c.invalid(fmt::format("{} weights do not fit {} n-grams", weights.size(), columns->size()));
    for (size_t i = 0; i < columns->size(); ++i)
      by_column[static_cast<size_t>((*columns)[i])] = weights.as<float>()[static_cast<int64_t>(i)];
  }
  if (!is_text) x = c.cast(x, DType::i64);
  const ValueId ids = c.add(ops::FindKeys{}, {x, c.add_constant(std::move(vocabulary.tokens))});
  return c.result(op, {ids, c.add_constant(Tensor::from_ints(grams)), c.add_constant(Tensor::from_ints(sorted_columns)),
                       c.add_constant(Tensor::of<float>(DType::f32, {width}, by_column))});
}

constexpr Converter string_table[] = {
    {"RegexFullMatch", regex_full_match},    {"StringConcat", string_concat},
    {"StringNormalizer", string_normalizer}, {"StringSplit", string_split},
    {"TfIdfVectorizer", tf_idf_vectorizer},
};

// com.microsoft
Values tokenizer(ConvertContext& c) {
  ops::Tokenize op;
  op.token = c.string_attribute("tokenexp", "");
  op.separators = texts(c, "separators");
  op.padding = c.string_attribute("pad_value");
  op.least_characters = c.int_attribute("mincharnum");
  op.marks_ends = c.int_attribute("mark") != 0;
  // One empty separator asks for single characters.
  if (op.token.empty() && op.separators.size() == 1 && op.separators[0].empty()) {
    op.token = "(?s).";
    op.separators.clear();
  }
  return c.result(op, {c.input(0)});
}

constexpr Converter microsoft_string_table[] = {{"Tokenizer", tokenizer}};

}  // namespace

std::span<const Converter> string_converters() {
  return string_table;
}

std::span<const Converter> microsoft_string_converters() {
  return microsoft_string_table;
}

}  // namespace camshaft::onnx

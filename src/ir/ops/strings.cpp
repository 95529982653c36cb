#include "ir/ops/strings.h"

#include "base/text/regex.h"
#include "ir/ops/broadcast.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

void check_text(const InferContext& context, size_t i) {
  if (context.dtype(i) != DType::string)
    fail_rule("input {} must be of strings, not {}", i, to_string(context.dtype(i)));
}

Inferred one_axis_more(const InferContext& context) {
  Inferred out{{DType::string, context.shape(0)}};
  out.type.shape.push_back(context.fresh(0, out.type.shape.size()));
  return out;
}

}  // namespace

std::vector<Inferred> StringConcat::infer(const InferContext& context) const {
  check_text(context, 0);
  check_text(context, 1);
  return {Inferred{{DType::string, broadcast_shapes(context.shape(0), context.shape(1))}}};
}

std::vector<Inferred> StringSplit::infer(const InferContext& context) const {
  check_text(context, 0);
  return {one_axis_more(context), Inferred{{DType::i64, context.shape(0)}}};
}

std::vector<Inferred> StringNormalize::infer(const InferContext& context) const {
  check_text(context, 0);
  Shape shape = context.shape(0);
  if (stop_words.empty()) return {Inferred{{DType::string, shape}}};
  if (shape.size() != 1 && (shape.size() != 2 || provably_different(shape[0], 1)))
    fail_rule("stop words are removed from [n] or [1, n], not {}", to_string(context.type(0)));
  shape.back() = context.fresh(0, shape.size() - 1);
  return {Inferred{{DType::string, shape}}};
}

std::vector<Inferred> RegexMatch::infer(const InferContext& context) const {
  check_text(context, 0);
  const Regex checked(pattern);
  return {Inferred{{DType::boolean, context.shape(0)}}};
}

std::vector<Inferred> Tokenize::infer(const InferContext& context) const {
  check_text(context, 0);
  if (context.rank(0) < 1 || context.rank(0) > 2) fail_rule("texts of {} axes, 1 or 2 are expected", context.rank(0));
  if (token.empty() == separators.empty()) fail_rule("either a token's pattern or separators are needed");
  const Regex checked(token);
  for (const std::string& separator : separators) const Regex also(separator);
  return {one_axis_more(context)};
}

std::vector<Inferred> CountTerms::infer(const InferContext& context) const {
  const Shape& ids = context.shape(0);
  if (context.dtype(0) != DType::i64 || ids.empty() || ids.size() > 2)
    fail_rule("count_terms takes ids, i64 [rows, n]");
  if (context.dtype(1) != DType::i64 || context.dtype(2) != DType::i64 || context.dtype(3) != DType::f32)
    fail_rule("count_terms takes grams and columns of i64 and weights of f32");
  if (most_skipped < 0 || most_skipped > 1 << 20 || least_length < 1 || most_length < least_length ||
      most_length > 1 << 20)
    fail_rule("count_terms: lengths {} to {} with {} skipped", least_length, most_length, most_skipped);
  int64_t grams = 0, elements = 0;
  for (size_t k = 0; k < gram_counts.size(); ++k) {
    int64_t size;
    if (gram_counts[k] < 0 || __builtin_mul_overflow(gram_counts[k], static_cast<int64_t>(k) + 1, &size) ||
        __builtin_add_overflow(elements, size, &elements))
      fail_rule("count_terms: {} grams of one length", gram_counts[k]);
    grams += gram_counts[k];
  }
  if (context.shape(1) != Shape{elements} || context.shape(2) != Shape{grams} || context.rank(3) != 1)
    fail_rule("count_terms: the tables do not fit the counts");
  Shape shape(ids.begin(), ids.end() - 1);
  shape.push_back(context.shape(3)[0]);
  return {Inferred{{DType::f32, shape}}};
}

}  // namespace camshaft::ops

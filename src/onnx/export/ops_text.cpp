// Operators on texts and pictures.
#include "ir/ops/image_decoder.h"
#include "ir/ops/strings.h"
#include "onnx/export/export_operator.h"

namespace camshaft::onnx {

void export_as(ExportContext& c, const ops::StringConcat&) {
  c.result("StringConcat", c.inputs());
}

void export_as(ExportContext& c, const ops::StringSplit& op) {
  Attributes attributes = Attributes().text("delimiter", op.delimiter);
  if (op.most_splits >= 0) attributes.integer("maxsplit", op.most_splits);
  c.result("StringSplit", c.inputs(), std::move(attributes));
}

void export_as(ExportContext& c, const ops::StringNormalize& op) {
  constexpr const char* actions[] = {"NONE", "LOWER", "UPPER"};
  Attributes attributes = Attributes().text("case_change_action", actions[static_cast<size_t>(op.change)]);
  attributes.flag("is_case_sensitive", op.is_case_sensitive);
  if (!op.stop_words.empty()) attributes.texts("stopwords", op.stop_words);
  c.result("StringNormalizer", c.inputs(), std::move(attributes));
}

void export_as(ExportContext& c, const ops::RegexMatch& op) {
  c.result("RegexFullMatch", c.inputs(), Attributes().text("pattern", op.pattern));
}

void export_as(ExportContext& c, const ops::Tokenize& op) {
  Attributes attributes;
  attributes.flag("mark", op.marks_ends).text("pad_value", op.padding).integer("mincharnum", op.least_characters);
  if (op.token.empty()) {
    attributes.texts("separators", op.separators);
  } else {
    attributes.text("tokenexp", op.token);
  }
  c.result({"Tokenizer", 1, "com.microsoft"}, c.inputs(), std::move(attributes));
}

// Ids are positions in a vocabulary, of which one is missing for what is not in it: they are looked up as integers.
void export_as(ExportContext& c, const ops::CountTerms& op) {
  const Tensor *grams = c.constant_input(1), *columns = c.constant_input(2), *weights = c.constant_input(3);
  if (!grams || !columns || !weights) c.unsupported("TfIdfVectorizer takes its n-grams and weights as numbers alone");
  std::vector<int64_t> starts;
  int64_t start = 0, length = 1;
  for (const int64_t count : op.gram_counts) {
    starts.push_back(start);
    start += count * length++;
  }
  const std::vector<double> by_column = weights->to_doubles();
  const std::vector<int64_t> indexes = columns->to_ints();
  std::vector<double> by_gram;
  for (const int64_t column : indexes) by_gram.push_back(by_column.at(static_cast<size_t>(column)));
  constexpr const char* modes[] = {"TF", "IDF", "TFIDF"};
  c.result("TfIdfVectorizer", {c.input(0)},
           Attributes()
               .integer("min_gram_length", op.least_length)
               .integer("max_gram_length", op.most_length)
               .integer("max_skip_count", op.most_skipped)
               .text("mode", modes[static_cast<size_t>(op.weight)])
               .integers("ngram_counts", starts)
               .integers("ngram_indexes", indexes)
               .integers("pool_int64s", grams->to_ints())
               .numbers("weights", by_gram));
}

void export_as(ExportContext& c, const ops::ImageDecoder& op) {
  constexpr const char* formats[] = {"RGB", "BGR", "Grayscale"};
  c.result("ImageDecoder", c.inputs(), Attributes().text("pixel_format", formats[static_cast<size_t>(op.format)]));
}

}  // namespace camshaft::onnx

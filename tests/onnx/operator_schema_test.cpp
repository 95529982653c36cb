#include "onnx/operator_schema.h"

#include <gtest/gtest.h>

#include "onnx/converters.h"

namespace camshaft::onnx::operator_schema_test {
namespace {

using Count = OperatorParameter::Count;

TEST(OperatorSchema, IsThatOfTheVersion) {
  const auto old = find_schema("", "Clip", 10), now = find_schema("ai.onnx", "Clip", newest_opset);
  ASSERT_TRUE(old && now);
  EXPECT_EQ(old->since, 6);
  ASSERT_EQ(old->attributes.size(), 2U);
  EXPECT_EQ(old->attributes[0].name, "max");
  EXPECT_EQ(old->attributes[0].type, AttributeType::float_);
  EXPECT_EQ(now->since, 11);
  ASSERT_EQ(now->inputs.size(), 3U);
  EXPECT_EQ(now->inputs[1].name, "min");
  EXPECT_EQ(now->inputs[1].type, "T");
  EXPECT_EQ(now->inputs[1].count, Count::optional);
  EXPECT_FALSE(find_schema("", "Gelu", 19));
  EXPECT_FALSE(find_schema("", "Clop", newest_opset));
}

TEST(OperatorSchema, SaysWhatIsRequiredAndWhatMayRepeat) {
  const auto loop = find_schema("", "Loop", newest_opset);
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->inputs.back().count, Count::any);
  ASSERT_EQ(loop->attributes.size(), 1U);
  EXPECT_TRUE(loop->attributes[0].is_required);
  EXPECT_EQ(attribute_type_name(loop->attributes[0].type), "a graph");
}

// scripts/operator_schemas.py makes the table: an operator that is added to the importer needs a line there.
TEST(OperatorSchema, EveryOperatorOfTheImporterHasOne) {
  std::string missing;
  for (const KnownOperator& known : known_operators()) {
    const int64_t version = known.domain.empty() ? newest_opset : newest_version(known.domain);
    if (!find_schema(known.domain, known.op_type, version))
      missing += " " + std::string(known.domain) + "." + std::string(known.op_type);
  }
  EXPECT_EQ(missing, "");
}

}  // namespace
}  // namespace camshaft::onnx::operator_schema_test

#include "base/similar_names.h"

#include <gtest/gtest.h>

#include <vector>

namespace camshaft::similar_names_test {
namespace {

TEST(SimilarNames, FewLettersApartOrPartOfTheOther) {
  EXPECT_TRUE(is_similar_name("stride", "strides"));
  EXPECT_TRUE(is_similar_name("Rleu", "Relu"));
  EXPECT_TRUE(is_similar_name("pads", "auto_pads"));
  EXPECT_FALSE(is_similar_name("alpha", "strides"));
}

TEST(SimilarNames, SaysWhatThereIsOtherwise) {
  const std::vector<std::string> known = {"axis", "keepdims"};
  EXPECT_EQ(what_was_meant("axes", known), "; did you mean 'axis'?");
  EXPECT_EQ(what_was_meant("strides", known), "; there are: axis, keepdims");
  EXPECT_EQ(what_was_meant("strides", {}), "");
  EXPECT_EQ(what_was_meant("strides", std::vector<std::string>(41, "axis")), "");
}

TEST(SimilarNames, OfManyTheNearest) {
  const std::vector<std::string> known = {"abcd", "abx", "abc", "aby", "abz"};
  EXPECT_EQ(what_was_meant("abc", known), "; did you mean 'abc' or 'abcd' or 'abx'?");
}

}  // namespace
}  // namespace camshaft::similar_names_test

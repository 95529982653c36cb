#include <gtest/gtest.h>

#include <algorithm>

#include "server/core/status.h"
#include "server/core/warm_up.h"

namespace camshaft::server::get_ready_test {
namespace {

// Answers what it is asked, but of sizes that it fails with.
class FakeInstance final : public Instance {
 public:
  FakeInstance(std::vector<int64_t>& seen, std::set<int64_t> fails, bool gets_ready = true)
      : seen_(seen), fails_(std::move(fails)), gets_ready_(gets_ready) {}
  void run(std::vector<PendingPtr> batch) noexcept override {
    for (PendingPtr& pending : batch) {
      seen_.push_back(pending->batch);
      if (fails_.contains(pending->batch))
        pending->fail({StatusCode::internal, "no memory"}, FailureReason::other);
      else
        pending->succeed({});
    }
  }
  bool gets_ready_for_sizes() const override { return gets_ready_; }

 private:
  std::vector<int64_t>& seen_;
  const std::set<int64_t> fails_;
  const bool gets_ready_;
};

Signature signature_of(int64_t max_batch, int64_t size = 3) {
  Signature signature;
  signature.max_batch = max_batch;
  TensorSpec input;
  input.name = "x";
  input.dtype = DType::f32;
  input.dims = {size};
  signature.inputs.push_back(input);
  return signature;
}

using Sizes = std::set<int64_t>;

Sizes ready(int64_t max_batch, std::vector<int64_t>& seen, const std::vector<Sizes>& fails = {{}},
            const Sizes& preferred = {}, int64_t size = 3, bool gets_ready = true) {
  std::vector<PlacedInstance> instances;
  for (const Sizes& failing : fails)
    instances.push_back({std::make_unique<FakeInstance>(seen, failing, gets_ready), 0});
  ModelConfig config;
  config.set_name("m");
  return get_ready(config, signature_of(max_batch, size), instances, preferred);
}

TEST(GetReady, TheLargestComesFirst) {
  std::vector<int64_t> seen;
  EXPECT_EQ(ready(12, seen), Sizes({1, 2, 3, 4, 6, 8, 12}));
  EXPECT_EQ(seen.front(), 12);
  EXPECT_TRUE(std::is_sorted(seen.rbegin(), seen.rend()));
  EXPECT_EQ(seen.size(), 14);  // each twice
}

TEST(GetReady, NoMoreThanAContextKeeps) {
  std::vector<int64_t> seen;
  EXPECT_EQ(ready(1024, seen, {{}}, {7, 5}), Sizes({1, 2, 3, 4, 5, 7, 8, 16, 32, 64, 128, 256, 512, 1024}));
  EXPECT_EQ(ready(1 << 30, seen, {{}}, {}, 32 << 20), Sizes({1, 2, 3}));  // of 128 MiB each
  EXPECT_EQ(ready(1 << 30, seen, {{}}, {}, 1 << 30), Sizes());
}

TEST(GetReady, SizesThatFailAreLeftOut) {
  std::vector<int64_t> seen;
  EXPECT_EQ(ready(8, seen, {{4}, {8, 3}}), Sizes({1, 2, 6}));
  EXPECT_EQ(ready(2, seen, {{1, 2}}), Sizes());
}

TEST(GetReady, OnlyWhereItIsNeededAndCanBe) {
  std::vector<int64_t> seen;
  EXPECT_EQ(ready(8, seen, {{}}, {}, -1), Sizes());
  EXPECT_EQ(ready(8, seen, {{}}, {}, 3, false), Sizes());
  EXPECT_EQ(ready(1, seen), Sizes());
  EXPECT_TRUE(seen.empty());
}

}  // namespace
}  // namespace camshaft::server::get_ready_test

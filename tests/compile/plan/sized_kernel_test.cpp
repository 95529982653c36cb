// Which of several kernels a set of shapes gets.
#include "compile/plan/sized_kernel.h"

#include <gtest/gtest.h>

namespace camshaft::sized_kernel_test {
namespace {

/// Counts what is prepared, and says of itself what a test wants.
class NotedKernel final : public Kernel {
 public:
  explicit NotedKernel(bool agrees = true) : agrees_(agrees) {}
  std::unique_ptr<Launch> prepare(const KernelShapes&) const override {
    ++prepared;
    return nullptr;
  }
  bool can_run_in_place(size_t, size_t) const override { return agrees_; }
  bool reads_slices(size_t) const override { return agrees_; }
  bool writes_slices(size_t) const override { return agrees_; }
  bool reads_input(size_t i) const override { return agrees_ && i == 0; }

  mutable int prepared = 0;

 private:
  bool agrees_;
};

using Kernels = std::vector<std::shared_ptr<const NotedKernel>>;

// Which one is prepared for these sizes.
size_t taken(const Kernel& kernel, const Kernels& kernels, const SymbolBindings& symbols) {
  for (const auto& each : kernels) each->prepared = 0;
  KernelShapes shapes;
  shapes.symbols = &symbols;
  kernel.prepare(shapes);
  size_t found = kernels.size();
  int all = 0;
  for (size_t k = 0; k < kernels.size(); ++k) {
    all += kernels[k]->prepared;
    if (kernels[k]->prepared > 0) found = k;
  }
  EXPECT_EQ(all, 1);
  return found;
}

TEST(SizedKernel, TakesTheNearestByTheRatioOfItsOwnSizes) {
  const Kernels kernels = {std::make_shared<NotedKernel>(), std::make_shared<NotedKernel>(),
                           std::make_shared<NotedKernel>()};
  const auto kernel = make_sized_kernel({{{{"n", 1}, {"other", 1}}, kernels[0]},
                                         {{{"n", 16}, {"other", 1}}, kernels[1]},
                                         {{{"n", 256}, {"other", 1}}, kernels[2]}},
                                        {"n"});
  for (const auto& [n, expected] : std::vector<std::pair<int64_t, size_t>>{
           {0, 0}, {1, 0}, {3, 0}, {4, 0}, {5, 1}, {16, 1}, {63, 1}, {65, 2}, {256, 2}, {int64_t{1} << 40, 2}})
    EXPECT_EQ(taken(*kernel, kernels, {{"n", n}, {"other", 1000}}), expected) << n;
  EXPECT_EQ(taken(*kernel, kernels, {{"m", 7}}), 0U) << "nothing is known";
}

TEST(SizedKernel, SeveralSizesCountTogether) {
  const Kernels kernels = {std::make_shared<NotedKernel>(), std::make_shared<NotedKernel>()};
  const auto kernel =
      make_sized_kernel({{{{"h", 10}, {"w", 10}}, kernels[0]}, {{{"h", 100}, {"w", 10}}, kernels[1]}}, {"h", "w"});
  EXPECT_EQ(taken(*kernel, kernels, {{"h", 20}, {"w", 1000}}), 0U);
  EXPECT_EQ(taken(*kernel, kernels, {{"h", 50}, {"w", 1}}), 1U);
}

TEST(SizedKernel, PromisesWhatAllPromise) {
  const auto yes = std::make_shared<NotedKernel>(true), no = std::make_shared<NotedKernel>(false);
  const auto all = make_sized_kernel({{{{"n", 1}}, yes}, {{{"n", 2}}, yes}}, {"n"});
  const auto some = make_sized_kernel({{{{"n", 1}}, yes}, {{{"n", 2}}, no}}, {"n"});
  EXPECT_TRUE(all->can_run_in_place(0, 0) && all->reads_slices(0) && all->writes_slices(0));
  EXPECT_FALSE(some->can_run_in_place(0, 0) || some->reads_slices(0) || some->writes_slices(0));
  EXPECT_TRUE(some->reads_input(0)) << "one of them does";
  EXPECT_FALSE(all->reads_input(1));
}

}  // namespace
}  // namespace camshaft::sized_kernel_test

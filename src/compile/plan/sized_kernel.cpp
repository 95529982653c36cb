#include "compile/plan/sized_kernel.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace camshaft {

namespace {

class SizedKernel final : public Kernel {
 public:
  SizedKernel(std::vector<SizedChoice> choices, std::vector<std::string> symbols)
      : choices_(std::move(choices)), symbols_(std::move(symbols)) {}

  Place place() const override { return choices_.front().kernel->place(); }
  bool can_be_recorded() const override {
    return all([](const Kernel& kernel) { return kernel.can_be_recorded(); });
  }
  bool can_be_updated() const override {
    return all([](const Kernel& kernel) { return kernel.can_be_updated(); });
  }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    const SizedChoice* nearest = nullptr;
    double least = 0;
    for (const SizedChoice& choice : choices_) {
      const double distance = shapes.symbols ? distance_from(choice, *shapes.symbols) : 0;
      if (nearest && distance >= least) continue;
      nearest = &choice;
      least = distance;
    }
    return nearest->kernel->prepare(shapes);
  }
  bool can_run_in_place(size_t i, size_t o) const override {
    return all([&](const Kernel& kernel) { return kernel.can_run_in_place(i, o); });
  }
  bool reads_slices(size_t i) const override {
    return all([&](const Kernel& kernel) { return kernel.reads_slices(i); });
  }
  bool writes_slices(size_t o) const override {
    return all([&](const Kernel& kernel) { return kernel.writes_slices(o); });
  }
  bool reads_input(size_t i) const override {
    return !all([&](const Kernel& kernel) { return !kernel.reads_input(i); });
  }

 private:
  template <class Predicate>
  bool all(const Predicate& predicate) const {
    return std::all_of(choices_.begin(), choices_.end(),
                       [&](const SizedChoice& choice) { return predicate(*choice.kernel); });
  }

  double distance_from(const SizedChoice& choice, const SymbolBindings& actual) const {
    double distance = 0;
    for (const std::string& name : symbols_) {
      const auto wanted = choice.optimum.find(name);
      const auto given = actual.find(name);
      if (wanted == choice.optimum.end() || given == actual.end()) continue;
      const auto size_of = [](int64_t size) { return static_cast<double>(std::max<int64_t>(size, 1)); };
      distance += std::abs(std::log(size_of(given->second) / size_of(wanted->second)));
    }
    return distance;
  }

  std::vector<SizedChoice> choices_;
  std::vector<std::string> symbols_;
};

}  // namespace

std::shared_ptr<const Kernel> make_sized_kernel(std::vector<SizedChoice> choices, std::vector<std::string> symbols) {
  return std::make_shared<const SizedKernel>(std::move(choices), std::move(symbols));
}

}  // namespace camshaft

#include "backends/cuda/tactics/expanded_product.h"

#include <algorithm>

#include "backends/cuda/device/weight_only_parameters.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "ir/ops/contract.h"
#include "ir/ops/region.h"

namespace camshaft::cuda {

namespace {

constexpr size_t place_alignment = 256;

ExpandForm expand_form(const WeightOnlyView& view) {
  ExpandForm form;
  form.to = view.x_dtype;
  form.scale = view.scale_dtype;
  form.bits = view.bits();
  form.zeros = view.one_zero ? ExpandZeros::one : view.has_real_zeros ? ExpandZeros::floats : ExpandZeros::bytes;
  return form;
}

class ExpandedLaunch final : public Launch {
 public:
  ExpandedLaunch(const WeightOnlyView& view, const DeviceSteps& steps, const Function& expand, const Kernel& product,
                 const KernelShapes& shapes)
      : view_(view), expand_(expand), inputs_(shapes.inputs.size()) {
    const int64_t in_16_bytes = 128 / bit_width(view.x_dtype),
                  pitch = (view.k + in_16_bytes - 1) / in_16_bytes * in_16_bytes;
    KernelShapes of_product = shapes;
    of_product.inputs[static_cast<size_t>(view.steps)] = {view.x_dtype, {view.n, view.k}, pitch == view.k ? 0 : pitch};
    product_ = product.prepare(of_product);
    float_bytes_ = byte_size(view.x_dtype, view.n * pitch);
    float_bytes_ = (float_bytes_ + place_alignment - 1) / place_alignment * place_alignment;
    p_.steps = steps.steps.data();
    p_.scales = steps.scales.data();
    p_.zeros = steps.zeros.data();
    p_.n = narrow(view.n);
    p_.k = narrow(view.k);
    p_.pitch = narrow(pitch);
    p_.zero = view.one_zero ? static_cast<float>(*view.one_zero) : 0;
    p_.moved = static_cast<float>(view.moved());
    p_.blocks = narrow(view.pitch());
    const int64_t chunk = 256 / view.bits(), chunks = (view.k + chunk - 1) / chunk, tiles = (view.n + 15) / 16;
    p_.chunks_of_tile = Divisor(narrow(chunks));
    p_.matrices_of_block = Divisor(narrow(view.matrices_of_block()));
    all_chunks_ = narrow(chunks * tiles, "a number of weights");
    constexpr uint32_t warps = ExpandForm::threads / 32, most_blocks = 1 << 20;
    size_.blocks = std::min((all_chunks_ + warps - 1) / warps, most_blocks);
    size_.threads = ExpandForm::threads;
    is_empty_ = element_count(shapes.outputs[0].dims) == 0;
  }

  size_t workspace_bytes() const override { return float_bytes_ + product_->workspace_bytes(); }

  void run(const LaunchArguments& arguments) override {
    if (is_empty_) return;
    p_.out = arguments.workspace;
    void* const parameters[] = {&p_, &all_chunks_};
    expand_.launch(stream_of(arguments), size_, parameters);
    std::copy(arguments.inputs.begin(), arguments.inputs.end(), inputs_.begin());
    inputs_[static_cast<size_t>(view_.steps)] = arguments.workspace;
    product_->run({inputs_, arguments.outputs, arguments.workspace + float_bytes_, arguments.pool,
                   arguments.cancellation, arguments.queue, arguments.source});
  }

 private:
  const WeightOnlyView& view_;
  const Function& expand_;
  std::unique_ptr<Launch> product_;
  ExpandParameters p_ = {};
  uint32_t all_chunks_ = 0;
  LaunchSize size_;
  size_t float_bytes_ = 0;
  std::vector<const std::byte*> inputs_;
  bool is_empty_ = false;
};

class ExpandedKernel final : public Kernel {
 public:
  ExpandedKernel(const WeightOnlyView& view, std::shared_ptr<const DeviceSteps> steps,
                 std::shared_ptr<const Kernel> product, const Workshop& workshop)
      : device_(workshop.device()),
        view_(view),
        steps_(std::move(steps)),
        product_(std::move(product)),
        expand_(workshop.module("expand", expand_text(expand_form(view))).function("expand")) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<ExpandedLaunch>(view_, *steps_, expand_, *product_, shapes);
  }
  bool can_run_in_place(size_t i, size_t o) const override {
    return !is_weights(i) && product_->can_run_in_place(i, o);
  }
  bool reads_slices(size_t i) const override { return !is_weights(i) && product_->reads_slices(i); }
  bool writes_slices(size_t o) const override { return product_->writes_slices(o); }
  bool reads_input(size_t i) const override { return view_.reads_input(i); }

 private:
  bool is_weights(size_t i) const {
    return static_cast<int32_t>(i) == view_.steps || static_cast<int32_t>(i) == view_.scale ||
           static_cast<int32_t>(i) == view_.zero;
  }

  std::shared_ptr<const Device> device_;  // outlives the functions
  WeightOnlyView view_;
  std::shared_ptr<const DeviceSteps> steps_;
  std::shared_ptr<const Kernel> product_;
  Function expand_;
};

}  // namespace

std::unique_ptr<const ProductOfFloats> ProductOfFloats::make(const RegionView& region, const WeightOnlyView& view) {
  const Node& node = region.node;
  const auto type_of_x = region.graph.type(node.inputs[static_cast<size_t>(view.x)]);
  if (type_of_x.shape.size() < 2 || view.epilogue.reads(static_cast<size_t>(view.steps))) return nullptr;
  const TensorType floats{view.x_dtype, {Dim(view.n), Dim(view.k)}};
  std::unique_ptr<ProductOfFloats> made(new ProductOfFloats(region));
  Graph& graph = made->graph_;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value& value = region.graph.value(node.inputs[i]);
    inputs.push_back(static_cast<int32_t>(i) == view.steps ? graph.add_input(value.name, floats)
                     : value.constant ? graph.add_constant(value.name, region.graph.constant(node.inputs[i]))
                                      : graph.add_input(value.name, value.type));
  }
  const ops::MatMul product{false, true};
  if (!node.op.as<ops::Region>()) {
    graph.add_node(product, {inputs[0], inputs[1]}, {"product"});
    return made;
  }
  Graph body = node.bodies[0];
  body.value(body.inputs[static_cast<size_t>(view.steps)]).type = floats;
  body.nodes[0].op = product;
  body.nodes[0].inputs.resize(2);
  graph.add_node(node.op, inputs, {"product"}, {}, {std::move(body)});
  return made;
}

double seconds_of_expanding(const WeightOnlyView& view) {
  const double elements = static_cast<double>(view.n * view.k);
  // What is written is read again by the product.
  return seconds_per_launch + elements * (view.bits() + bit_width(view.x_dtype)) / 8 * seconds_per_byte;
}

std::shared_ptr<const Kernel> expanded_kernel(const WeightOnlyView& view, std::shared_ptr<const DeviceSteps> steps,
                                              std::shared_ptr<const Kernel> product, const Workshop& workshop) {
  return std::make_shared<ExpandedKernel>(view, std::move(steps), std::move(product), workshop);
}

}  // namespace camshaft::cuda

#include "backends/cuda/tactics/product_launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/driver/check.h"
#include "backends/cuda/driver/queue.h"
#include "backends/cuda/tactics/narrow.h"
#include "base/divide_up.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/spatial.h"

namespace camshaft::cuda {

namespace {

Divisor divisor(int64_t value, const char* what) {
  return Divisor(narrow(std::max<int64_t>(value, 1), what));
}

class ProductLaunch final : public Launch {
 public:
  ProductLaunch(const ProductView& view, const CompiledProduct& compiled, const KernelShapes& shapes)
      : view_(view), compiled_(compiled), operands_(view.epilogue, shapes) {
    const OperandShape& c = shapes.outputs[0];
    if (view.conv) {
      set_windows(shapes);
    } else {
      set_matrices(shapes);
    }
    // Kernels are made here, not in the middle of a run: what cannot be aligned, or may not be, needs the other one.
    is_whole_ = p_.k % static_cast<uint32_t>(chunk()) == 0 &&
                (!view.form.b_by_columns || p_.n % static_cast<uint32_t>(chunk()) == 0);
    p_.c_row = narrow(c.pitch(), "a row of a result");
    const int64_t width = bit_width(view.epilogue.result) / 8;
    columns_can_be_vector_ = p_.c_column_step % 8 == 0;
    c_can_be_vector_ = p_.c_row % 8 == 0 && columns_can_be_vector_;
    c_alignment_ = static_cast<uintptr_t>(std::min<int64_t>(16, 8 * width));
    results_are_whole_ = p_.n % 8 == 0 && c_can_be_vector_ && operands_.can_be_vector();
    const Aligned most = aligned(a_can_be_vector_ && b_can_be_vector_, true);
    const api::Driver& driver = compiled.device->driver();
    copies_tensors_ = most != Aligned::nothing && compiled.can_copy_tensors() && batch_ == 1 && p_.m > 0 &&
                      driver.cuTensorMapEncodeTiled;
    if (copies_tensors_) {
      compiled.tensor_function(most);
    } else {
      compiled.function(most);
    }
    if (shapes.inputs[static_cast<size_t>(view.a)].row_stride > 0) compiled.function(Aligned::nothing);
    if (compiled.tile.patch_rows > 0) {
      set_patches(c.dims);
      return;
    }
    const int64_t batch = batch_, tiles_m = divide_up(p_.m, compiled.tile.m),
                  tiles_n = divide_up(p_.n, compiled.tile.n);
    p_.tiles = divisor(tiles_m * tiles_n, "a number of tiles");
    p_.tiles_n = divisor(tiles_n, "a number of tiles");
    p_.all_tiles = narrow(tiles_m * tiles_n * batch, "a number of tiles");
    p_.panels = panels_of(tiles_m, tiles_n);
    blocks_ = p_.all_tiles;
    if (blocks_ == 0) return;
    if (compiled.tile.persistent)
      blocks_ = std::min(blocks_, static_cast<unsigned>(compiled.device->facts().multiprocessors));
    const int bk = 128 * 8 / bit_width(view.form.dtype);
    // (Where sums stay in registers, those of nothing are of one slice of zeros.)
    p_.k_tiles = std::max((p_.k + static_cast<uint32_t>(bk) - 1) / static_cast<uint32_t>(bk),
                          compiled.tile.from_registers ? 1u : 0u);
    const ContractSize size{static_cast<double>(p_.m), static_cast<double>(p_.n), static_cast<double>(p_.k),
                            static_cast<double>(batch)};
    const auto wanted = static_cast<uint32_t>(compiled.splits(size));
    p_.k_tiles_per_split = std::max(1u, (p_.k_tiles + wanted - 1) / wanted);
    splits_ = std::max(1u, (p_.k_tiles + p_.k_tiles_per_split - 1) / p_.k_tiles_per_split);
    p_.is_cluster = compiled.can_be_cluster(static_cast<int>(splits_));
    p_.b_is_constant = view.rows.has_value();
    if (view.steps) set_steps(*view.steps);
    if (compiled.begin) p_.begin = reinterpret_cast<const int32_t*>(compiled.begin->data());
    // What fits the cache is there already.
    const int64_t result_bytes = batch * p_.m * p_.n * width;
    p_.fetches = 2 * result_bytes > static_cast<int64_t>(compiled.device->facts().l2_bytes);
    // Blocks that begin while the kernel before ends go where there is room, and not where nobody is: two that share a
    // multiprocessor's way to L2 take nearly twice as long (ViT-B/16: 529 us, and 476 us with one on each).
    const bool is_few = int64_t{blocks_} * splits_ <= compiled.device->facts().multiprocessors;
    const int needed = compiled.tile.shared_bytes(static_cast<int>(p_.k_tiles_per_split));
    shared_bytes_ = static_cast<unsigned>(is_few ? compiled.bytes_of_few() : int64_t{needed});
    if (copies_tensors_) {
      map_b();
      if (compiled.tile.cluster > 1) set_clusters(tiles_m, tiles_n, most);
    }
    if (p_.is_cluster) {
      p_.parts = static_cast<uint32_t>(needed);
      const int parts = compiled.tile.cluster_bytes(static_cast<int>(splits_));
      shared_bytes_ = std::max(shared_bytes_, static_cast<unsigned>(needed + parts));
    }
    if (splits_ > 1 && !p_.is_cluster) {
      counters_ = upload(*compiled.device, std::vector<std::byte>(blocks_ * sizeof(uint32_t)), "a layer's counters");
      p_.counters = reinterpret_cast<uint32_t*>(counters_.data());
    }
  }

  size_t workspace_bytes() const override {
    return splits_ == 1 || p_.is_cluster
               ? 0
               : sizeof(float) * blocks_ * splits_ * static_cast<size_t>(compiled_.tile.m * compiled_.tile.n);
  }

  void run(const LaunchArguments& arguments) override {
    if (blocks_ == 0) return;
    p_.a = arguments.inputs[static_cast<size_t>(view_.a)];
    p_.b = view_.steps  ? compiled_.steps->steps.data()
           : view_.rows ? compiled_.weights.data()
                        : arguments.inputs[static_cast<size_t>(view_.b)];
    p_.c = arguments.outputs[0];
    p_.a_vector = a_can_be_vector_ && is_aligned(p_.a);
    p_.b_vector = b_can_be_vector_ && is_aligned(p_.b);
    p_.c_vector = c_can_be_vector_ && reinterpret_cast<uintptr_t>(p_.c) % c_alignment_ == 0;
    p_.partial = arguments.workspace;
    const bool operands_are_vectors = operands_.bind(arguments, p_.operand);
    const Aligned found = aligned(p_.a_vector && p_.b_vector, operands_are_vectors && p_.c_vector);
    for (EpilogueOperand& operand : p_.operand) operand.vector &= columns_can_be_vector_;
    LaunchSize size;
    size.blocks = blocks_;
    size.blocks_y = compiled_.tile.patch_rows > 0 ? column_blocks_ : splits_;
    size.threads = static_cast<unsigned>(compiled_.tile.threads_of_block());
    size.shared_bytes = shared_bytes_;
    size.cluster_y = p_.is_cluster ? splits_ : 1;
    const Stream& stream = static_cast<Queue*>(arguments.queue)->stream();
    void* parameters[] = {&p_, &maps_};
    const bool tensors = copies_tensors_ && found != Aligned::nothing;
    if (tensors) map_a();
    ContractParameters of_clusters;
    if (tensors && clusters_ > 0) {
      of_clusters = p_;
      of_clusters.all_tiles = several_tiles_;
      of_clusters.panels = panels_of_clusters_;
      parameters[0] = &of_clusters;
      size.blocks = clusters_;
      size.blocks_y = size.cluster_y = static_cast<unsigned>(compiled_.tile.cluster);
    }
    const Function& function = tensors ? compiled_.tensor_function(found) : compiled_.function(found);
    function.launch(stream, size, {parameters, compiled_.tile.persistent ? size_t{2} : size_t{1}});
  }

 private:
  Aligned aligned(bool slices, bool results) const {
    if (!is_whole_ || !slices) return Aligned::nothing;
    return results_are_whole_ && results ? Aligned::all : Aligned::slices;
  }

  // Elements that 16 bytes hold.
  int64_t chunk() const { return 128 / bit_width(view_.form.dtype); }

  void set_weights() {
    p_.b_row = view_.rows->pitch;
    p_.b_column = 1;
    b_can_be_vector_ = true;
  }

  void set_steps(const StepTerms& steps) {
    p_.scales = compiled_.steps->scales.data();
    p_.zeros = compiled_.steps->zeros.data();
    p_.step_zero = steps.one_zero;
    p_.step_chunks = narrow(steps.chunks);
    p_.step_blocks = narrow(steps.blocks);
    p_.matrices_of_block = divisor(steps.matrices_of_block, "the size of a block");
  }

  void set_windows(const KernelShapes& shapes) {
    const OperandShape& x = shapes.inputs[static_cast<size_t>(view_.a)];
    const Dims &in = x.dims, &out = shapes.outputs[0].dims, &w = view_.window;
    const ops::Conv& op = *view_.conv;
    const bool is_2d = in.size() == 4;
    require_equal(in.back(), w[1] * op.groups, "the number of input channels of a convolution");
    if (const auto& inputs = view_.contract.anchor_inputs; inputs.size() > 2 && inputs[2] >= 0)
      require_equal(shapes.inputs[static_cast<size_t>(inputs[2])].dims[0], w[0],
                    "the number of biases of a convolution");
    p_.m = narrow(element_count(Dims(out.begin(), out.end() - 1)), "a number of pixels");
    p_.n = narrow(w[0] / op.groups, "a number of channels");
    p_.k = narrow(w[1] * w[2] * w[3], "the size of a window");
    batch_ = op.groups;
    p_.a_row = x.pitch();
    p_.a_column = 1;
    set_weights();
    if (!view_.form.window) {
      a_can_be_vector_ = w[1] % chunk() == 0 && p_.a_row % chunk() == 0;
      return;
    }
    const ContractWindow& window = *view_.form.window;
    p_.a_batch = {1, {divisor(op.groups, "groups")}, {w[1]}};
    p_.b_batch = {1, {divisor(op.groups, "groups")}, {static_cast<int64_t>(p_.n) * p_.b_row}};
    p_.c_column_step = p_.n;
    p_.in_h = is_2d ? narrow(in[1], "a height") : 1;
    p_.in_w = narrow(in[in.size() - 2], "a width");
    const int64_t out_w = out[out.size() - 2], out_h = is_2d ? out[1] : 1;
    p_.out_pixels = divisor(out_w * out_h, "a number of pixels");
    p_.out_w = divisor(out_w, "a width");
    const size_t axes = op.pads.size() / 2;
    p_.pad_top = is_2d ? narrow_pad(op.pads[axes - 2], shapes) : 0;
    p_.pad_left = narrow_pad(op.pads[axes - 1], shapes);
    narrow(element_count(window.row_is_tap ? in : Dims(in.begin(), in.end() - 1)), "a number of pixels");
    if (window.row_is_tap) {
      p_.in_w = narrow(int64_t{p_.in_w} * w[1], "a width");
      p_.a_row = 1;
      p_.pad_left *= static_cast<int32_t>(w[1]);
    }
    a_can_be_vector_ = w[1] % chunk() == 0 && p_.a_row % chunk() == 0 && window.height <= 16 && window.width <= 16;
  }

  // By parts of 32 columns, whose columns come in another order: see TensorMaps.
  void map_b() {
    const uint64_t row = static_cast<uint64_t>(p_.b_row) * element_bytes();
    constexpr uint32_t part = 32;
    const auto parts = static_cast<uint32_t>(compiled_.tile.n / compiled_.tile.cluster) / part;
    map(maps_.b, const_cast<std::byte*>(compiled_.weights.data()),
        {p_.k, 2, 4, 4, static_cast<uint64_t>(divide_up(p_.n, part))}, {row, 8 * row, 2 * row, part * row},
        {2, 4, 4, parts});
  }

  // What all blocks read at one time is the less, the more their tiles are a square: B of 50,257 columns, which no
  // cache holds, was read again for each row of tiles.
  static TilePanels panels_of(int64_t tiles_m, int64_t tiles_n) {
    constexpr int64_t most_rows = 8;
    const int64_t rows = std::clamp<int64_t>(tiles_m, 1, most_rows),
                  count = std::max<int64_t>(divide_up(tiles_m, rows), 1);
    return {narrow(count), divisor(rows * tiles_n, "a number of tiles"), divisor(rows, "a number of tiles"),
            divisor(tiles_m - (count - 1) * rows, "a number of tiles")};
  }

  // Of blocks that have tiles below each other: as many as are there at once, as further ones would begin when others
  // have ended, in twice the time.
  void set_clusters(int64_t tiles_m, int64_t tiles_n, Aligned most) {
    const int64_t cluster = compiled_.tile.cluster;
    several_tiles_ = narrow(divide_up(tiles_m, cluster) * tiles_n, "a number of tiles");
    panels_of_clusters_ = panels_of(divide_up(tiles_m, cluster), tiles_n);
    LaunchSize size;
    size.blocks = several_tiles_;
    size.blocks_y = size.cluster_y = static_cast<unsigned>(cluster);
    size.threads = static_cast<unsigned>(compiled_.tile.threads_of_block());
    size.shared_bytes = shared_bytes_;
    clusters_ = std::min(several_tiles_, std::max(1u, compiled_.tensor_function(most).clusters_at_once(size)));
  }

  void map_a() {
    if (p_.a == mapped_a_) return;
    map(maps_.a, const_cast<void*>(p_.a), {p_.k, p_.m}, {static_cast<uint64_t>(p_.a_row) * element_bytes()},
        {static_cast<uint32_t>(compiled_.tile.m)});
    mapped_a_ = p_.a;
  }

  uint64_t element_bytes() const { return static_cast<uint64_t>(bit_width(view_.form.dtype)) / 8; }

  // Boxes are of 128 bytes along the first axis.
  void map(TensorMap& to, void* data, std::initializer_list<uint64_t> sizes, std::initializer_list<uint64_t> strides,
           std::initializer_list<uint32_t> box) const {
    const Current current(*compiled_.device);
    const api::Driver& driver = compiled_.device->driver();
    std::vector<uint32_t> whole_box{static_cast<uint32_t>(chunk()) * 8};
    whole_box.insert(whole_box.end(), box);
    const std::vector<uint32_t> ones(sizes.size(), 1);
    check(driver,
          driver.cuTensorMapEncodeTiled(&to, element_bytes() == 2 ? api::tensor_of_u16 : api::tensor_of_u8,
                                        static_cast<uint32_t>(sizes.size()), data, sizes.begin(), strides.begin(),
                                        whole_box.data(), ones.data(), api::not_interleaved, api::swizzle_of_128_bytes,
                                        api::cache_lines_of_256_bytes, api::zeros_outside),
          "mapping an operand of a product");
  }

  // Each block takes some rows of an image, or of a part of its columns.
  void set_patches(const Dims& out) {
    const ContractTile& tile = compiled_.tile;
    const int64_t width = out[out.size() - 2], height = out.size() == 4 ? out[1] : 1;
    const int64_t across = std::max<int64_t>((width + most_patch_columns - 1) / most_patch_columns, 1),
                  down = (height + tile.patch_rows - 1) / tile.patch_rows;
    const auto columns = static_cast<int>((width + across - 1) / across);
    p_.patch_columns = static_cast<uint32_t>(columns);
    p_.patch_pieces = divisor(patch_pitch(*view_.form.window, columns) / 8, "pixels");
    p_.tiles = divisor(across * down, "a number of tiles");
    p_.tiles_n = divisor(across, "a number of tiles");
    blocks_ = p_.m == 0 ? 0 : narrow(out[0] * across * down, "a number of tiles");
    column_blocks_ = (p_.n + static_cast<unsigned>(tile.n) - 1) / static_cast<unsigned>(tile.n);
    shared_bytes_ = static_cast<unsigned>(patch_bytes(*view_.form.window, tile, columns));
  }

  static int32_t narrow_pad(const Dim& pad, const KernelShapes& shapes) {
    constexpr int64_t most = 1 << 20;
    const int64_t amount = ops::evaluate_pad(pad, *shapes.symbols);
    if (amount < -most || amount > most)
      throw Error(ErrorCode::unsupported, fmt::format("a padding of {} is more than GPU kernels take", amount));
    return static_cast<int32_t>(amount);
  }

  void set_matrices(const KernelShapes& shapes) {
    const OperandShape &a = shapes.inputs[static_cast<size_t>(view_.a)],
                       &b = shapes.inputs[static_cast<size_t>(view_.b)];
    const Dims& c = shapes.outputs[0].dims;
    const bool ta = view_.matmul->transpose_a, tb = view_.matmul->transpose_b;
    const Dims a_lead(a.dims.begin(), a.dims.end() - 2), b_lead(b.dims.begin(), b.dims.end() - 2),
        c_lead(c.begin(), c.end() - 2);
    const int64_t m = c[c.size() - 2], k = ta ? a.dims[a.dims.size() - 2] : a.dims.back();
    require_equal(k, tb ? b.dims.back() : b.dims[b.dims.size() - 2], "the size that matmul sums over");
    require_equal(m, ta ? a.dims.back() : a.dims[a.dims.size() - 2], "the number of rows of a matmul");
    require_equal(c.back(), tb ? b.dims[b.dims.size() - 2] : b.dims.back(), "the number of columns of a matmul");
    require_broadcast(a_lead, c_lead);
    require_broadcast(b_lead, c_lead);
    p_.n = narrow(c.back(), "a number of columns");
    p_.k = narrow(k, "a number of columns");
    p_.a_row = ta ? 1 : a.pitch();
    p_.a_column = ta ? a.pitch() : 1;
    if (view_.rows) {
      set_weights();
    } else {
      p_.b_row = tb ? b.pitch() : 1;
      p_.b_column = tb ? 1 : b.pitch();
    }
    // One matrix of all rows where they follow each other and B is the same for all.
    const bool one_product = !ta && element_count(b_lead) == 1 && element_count(a_lead) == element_count(c_lead);
    if (one_product) {
      p_.m = narrow(m * element_count(c_lead), "a number of rows");
    } else {
      p_.m = narrow(m, "a number of rows");
      batch_ = element_count(c_lead);
      p_.a_batch = batch_map(a, c_lead);
      p_.b_batch = batch_map(b, c_lead);
      narrow(m * batch_, "a number of rows");  // which are counted through the batch
      p_.c_row_step = p_.m;
    }
    const auto whole = [&](const RowMap& map) {
      return std::all_of(map.stride, map.stride + map.rank, [&](int64_t s) { return s % chunk() == 0; });
    };
    a_can_be_vector_ = !ta && p_.a_row % chunk() == 0 && whole(p_.a_batch);
    if (!view_.rows) {
      const bool rows = p_.b_column == 1 && !view_.form.b_by_columns && p_.b_row % chunk() == 0;
      const bool columns = view_.form.b_by_columns && p_.b_column % chunk() == 0;
      b_can_be_vector_ = (rows || columns) && whole(p_.b_batch);
    }
  }

  // Where the matrices of a batch lie in an operand.
  static RowMap batch_map(const OperandShape& operand, const Dims& lead) {
    // As rows of a tensor whose last axis is a whole matrix.
    Dims dims(operand.dims.begin(), operand.dims.end() - 2), out = lead;
    const int64_t matrix = operand.dims[operand.dims.size() - 2] * operand.pitch();
    dims.push_back(matrix);
    out.push_back(matrix);
    return map_operand({operand.dtype, dims}, out).rows;
  }

  const ProductView& view_;
  const CompiledProduct& compiled_;
  EpilogueOperands operands_;
  ContractParameters p_ = {};
  TensorMaps maps_ = {};
  const void* mapped_a_ = nullptr;
  bool copies_tensors_ = false;
  TilePanels panels_of_clusters_ = {};
  uint32_t several_tiles_ = 0, clusters_ = 0;  // where blocks are in clusters: what these take, and how many there are
  int64_t batch_ = 1;
  bool a_can_be_vector_ = false, b_can_be_vector_ = false, c_can_be_vector_ = false;
  bool columns_can_be_vector_ = false;  // a group's columns begin at a multiple of 8
  bool is_whole_ = false;               // 16 bytes of A or B are all there or none, …
  bool results_are_whole_ = false;      // … and so are 8 columns of what else is read and written
  uintptr_t c_alignment_ = 16;
  unsigned blocks_ = 0, splits_ = 1, column_blocks_ = 1, shared_bytes_ = 0;
  DeviceBuffer counters_;
};

}  // namespace

std::unique_ptr<Launch> product_launch(const ProductView& view, const CompiledProduct& compiled,
                                       const KernelShapes& shapes) {
  return std::make_unique<ProductLaunch>(view, compiled, shapes);
}

}  // namespace camshaft::cuda

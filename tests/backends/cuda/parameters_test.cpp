// What kernels are given is declared once, for host and device: in the headers of src/backends/cuda/device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <type_traits>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/device/arg_reduce_parameters.h"
#include "backends/cuda/device/attention_parameters.h"
#include "backends/cuda/device/col2im_parameters.h"
#include "backends/cuda/device/complaint_parameters.h"
#include "backends/cuda/device/concat_parameters.h"
#include "backends/cuda/device/conv_transpose_parameters.h"
#include "backends/cuda/device/copy_parameters.h"
#include "backends/cuda/device/depthwise_parameters.h"
#include "backends/cuda/device/few_rows_parameters.h"
#include "backends/cuda/device/gather_matmul_parameters.h"
#include "backends/cuda/device/gather_parameters.h"
#include "backends/cuda/device/generate_parameters.h"
#include "backends/cuda/device/group_columns_parameters.h"
#include "backends/cuda/device/pad_parameters.h"
#include "backends/cuda/device/paged_parameters.h"
#include "backends/cuda/device/paged_update_parameters.h"
#include "backends/cuda/device/pool_parameters.h"
#include "backends/cuda/device/recurrent_parameters.h"
#include "backends/cuda/device/reduce_parameters.h"
#include "backends/cuda/device/resize_parameters.h"
#include "backends/cuda/device/rotary_embedding_parameters.h"
#include "backends/cuda/device/row_parameters.h"
#include "backends/cuda/device/sample_parameters.h"
#include "backends/cuda/device/small_copies_parameters.h"
#include "backends/cuda/device/softmax_parameters.h"
#include "backends/cuda/device/squeeze_excite_parameters.h"
#include "backends/cuda/device/top_k_parameters.h"
#include "backends/cuda/device/weight_only_parameters.h"
#include "backends/cuda/driver/compiler.h"
#include "device_texts.h"

namespace camshaft::cuda::parameters_test {
namespace {

struct SourceFile {
  std::string name;  // "device/pad.cuh"
  std::string text;

  bool is_in_device() const { return name.starts_with("device/"); }
  bool is_shared() const { return is_in_device() && name.ends_with(".h"); }
};

std::vector<SourceFile> sources() {
  const auto folder = std::filesystem::path(CAMSHAFT_SOURCE_FOLDER) / "src/backends/cuda";
  std::vector<SourceFile> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    files.push_back({entry.path().lexically_relative(folder).generic_string(), text.str()});
  }
  return files;
}

/// The first group of every match.
std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), expression); it != std::sregex_iterator(); ++it)
    found.insert((*it)[1]);
  return found;
}

std::set<std::string> structs_of(const std::string& text) {
  return matches(text, R"((?:^|\n) *(?:struct|class) +(?:alignas\(\w+\) +)?(\w+)[^;({]*\{)");
}

std::set<std::string> shared_structs(const std::vector<SourceFile>& files) {
  std::set<std::string> all;
  for (const SourceFile& file : files)
    if (file.is_shared()) all.merge(structs_of(file.text));
  return all;
}

TEST(KernelParameters, AreDeclaredInSharedHeadersAlone) {
  std::map<std::string, std::string> of_host, of_device;
  const std::vector<SourceFile> files = sources();
  const std::set<std::string> shared = shared_structs(files);
  ASSERT_TRUE(shared.contains("PadParameters") && shared.contains("Divisor"));
  for (const SourceFile& file : files) {
    if (file.is_shared()) continue;
    for (const std::string& name : structs_of(file.text)) {
      EXPECT_FALSE(shared.contains(name)) << file.name << " declares " << name << " again";
      EXPECT_FALSE(name.ends_with("Parameters") && file.name.ends_with(".cuh"))
          << file.name << " declares " << name << ", which the host cannot see";
      (file.is_in_device() ? of_device : of_host)[name] = file.name;
    }
  }
  for (const auto& [name, file] : of_device)
    EXPECT_FALSE(of_host.contains(name)) << file << " and " << of_host[name] << " declare " << name;
}

TEST(KernelParameters, OfEveryKernelAreShared) {
  const std::vector<SourceFile> files = sources();
  const std::set<std::string> shared = shared_structs(files);
  // Other names for what is shared, with as many operands as a kernel has: "Attention".
  std::set<std::string> aliases, taken;
  for (const SourceFile& file : files) aliases.merge(matches(file.text, R"(typedef \w+<\w+> (\w+);)"));
  aliases.insert("Behind");  // of ReduceBehind or ReduceNothingBehind, as codegen/reduce_text.cpp has it
  for (const SourceFile& file : files) {
    for (const std::string& name : matches(file.text, R"(__grid_constant__ (\w+))")) {
      EXPECT_TRUE(shared.contains(name) || aliases.contains(name)) << file.name << ": " << name;
      taken.insert(name);
    }
  }
  EXPECT_GT(taken.size(), 20U);
}

TEST(KernelParameters, HeadersAreTheHostsToo) {
  const std::vector<SourceFile> files = sources();
  for (const SourceFile& file : files) {
    if (!file.is_shared()) continue;
    const std::string line = "#include \"backends/cuda/" + file.name + '"';
    EXPECT_TRUE(std::any_of(files.begin(), files.end(), [&](const SourceFile& other) {
      return other.text.find(line) != std::string::npos;
    })) << file.name;
  }
}

/// What makes an assertion of the device's compiler from the host's size and alignment.
template <class T>
std::string assertion(const std::string& name) {
  static_assert(std::is_standard_layout_v<T> && std::is_trivially_copyable_v<T>);
  return fmt::format("static_assert(sizeof({0}) == {1} && alignof({0}) == {2}, \"{0}\");\n", name, sizeof(T),
                     alignof(T));
}

#define OF(...) assertion<__VA_ARGS__>(#__VA_ARGS__)

TEST(KernelParameters, AreLaidOutAlikeByBothCompilers) {
  const std::string assertions =
      OF(Divisor) + OF(Axes) + OF(Nest<3>) + OF(Space<3>) + OF(RowMap) + OF(TilePanels) + OF(EpilogueOperand) +
      OF(ContractParameters) + OF(TensorMap) + OF(TensorMaps) + OF(DepthwiseParameters) + OF(ConvTransposeParameters) +
      OF(SqueezeExciteParameters) + OF(PoolParameters) + OF(PadParameters) + OF(MappedCopyParameters) +
      OF(IndexMapParameters) + OF(ResizeParameters) + OF(GatherRowsParameters) + OF(ElementsParameters) +
      OF(SlicesParameters) + OF(ComplaintReport) + OF(Complaint) + OF(NumbersParameters) + OF(CumulativeParameters) +
      OF(GridSampleParameters) + OF(Col2ImParameters) + OF(TransposeParameters) + OF(ConcatPart) +
      OF(ConcatParameters) + OF(RowParameters) + OF(SoftmaxColumnsParameters) + OF(GroupColumnsParameters) +
      OF(ReduceShape) + OF(ReduceParameters<3>) + OF(ReduceSources<3>) + OF(ReduceBehind<3>) + OF(ReduceNothingBehind) +
      OF(ArgReduceParameters) + OF(RecurrentParameters) + OF(RotaryTable) + OF(RotaryParameters) + OF(TopKParameters) +
      OF(TopKMergeParameters) + OF(AttentionAccess) + OF(AttentionMask) + OF(AttentionParameters<3>) +
      OF(ExpandParameters) + OF(FewRowsParameters) + OF(WeightOnlyParameters) + OF(PagedStoreParameters) +
      OF(PagedQuantizeParameters) + OF(PagedParameters) + OF(PagedUpdateParameters) + OF(PagedStepParameters) +
      OF(GatherMatMulParameters) + OF(CopiedBytes) + OF(SmallCopiesParameters);
  for (const std::string& name : shared_structs(sources()))
    EXPECT_TRUE(std::regex_search(assertions, std::regex("sizeof\\(" + name + "\\b"))) << name << " is not among them";

  const std::string text = device_text({device::axes_parameters_h,
                                        device::space_parameters_h,
                                        device::contract_parameters_h,
                                        device::depthwise_parameters_h,
                                        device::conv_transpose_parameters_h,
                                        device::squeeze_excite_parameters_h,
                                        device::pool_parameters_h,
                                        device::pad_parameters_h,
                                        device::resize_parameters_h,
                                        device::gather_parameters_h,
                                        device::complaint_parameters_h,
                                        device::generate_parameters_h,
                                        device::sample_parameters_h,
                                        device::col2im_parameters_h,
                                        device::copy_parameters_h,
                                        device::concat_parameters_h,
                                        device::row_parameters_h,
                                        device::softmax_parameters_h,
                                        device::reduce_parameters_h,
                                        device::group_columns_parameters_h,
                                        device::arg_reduce_parameters_h,
                                        device::recurrent_parameters_h,
                                        device::rotary_embedding_parameters_h,
                                        device::top_k_parameters_h,
                                        device::attention_parameters_h,
                                        device::few_rows_parameters_h,
                                        device::weight_only_parameters_h,
                                        device::paged_parameters_h,
                                        device::paged_update_parameters_h,
                                        device::gather_matmul_parameters_h,
                                        device::small_copies_parameters_h});
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const std::string kernel = "extern \"C\" __global__ void nothing() {}\n";
  EXPECT_FALSE(Compiler(nvrtc).compile({"parameters", text + assertions + kernel, architecture(90)}).empty());
}

// divide() of device/scalar.cuh, with 64 bits in the place of an instruction.
uint32_t divide(uint32_t n, const Divisor& divisor) {
  const auto high = static_cast<uint32_t>(uint64_t{n} * divisor.multiplier >> 32);
  return divisor.shift == 0 ? n : (high + ((n - high) >> 1)) >> (divisor.shift - 1);
}

TEST(Divisor, DividesEveryNumberOf32Bits) {
  constexpr uint32_t most = ~0U;
  for (const uint32_t value : {1U, 2U, 3U, 5U, 7U, 8U, 9U, 10U, 255U, 256U, 641U, 65535U, 65536U, 65537U, 1U << 31,
                               (1U << 31) - 1, (1U << 31) + 1, most - 1, most})
    for (const uint32_t n : {0U, 1U, 2U, 6U, 7U, 8U, 99U, 65535U, 65536U, 123456789U, value - 1, value, 2 * value - 1,
                             1U << 31, most - 1, most})
      EXPECT_EQ(divide(n, Divisor(value)), n / value) << n << " / " << value;
}

}  // namespace
}  // namespace camshaft::cuda::parameters_test

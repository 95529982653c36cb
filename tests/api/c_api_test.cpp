// The C interface, as a program in C sees it; tests/install/test_library.py has one compiled as C.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "api/option_table.h"
#include "api/record.h"
#include "base/available_cores.h"
#include "base/temporary_folder.h"
#include "camshaft/camshaft.h"
#include "doubling_model.h"

namespace camshaft::api::c_api_test {
namespace {

struct Options {
  explicit Options(int32_t what) { EXPECT_EQ(camshaft_options_create(what, &handle), CAMSHAFT_OK); }
  ~Options() { camshaft_options_free(handle); }
  camshaft_options* handle = nullptr;
};

std::string refusal(camshaft_status status) {
  EXPECT_EQ(status, CAMSHAFT_INVALID_ARGUMENT);
  return camshaft_error_message();
}

// What camshaft.h says that a build's report has, {verification: [{output, …}], samples, …}: its keys, and those of the
// entries of its lists.
struct DescribedReport {
  std::set<std::string> keys;
  std::map<std::string, std::set<std::string>> entries;
};

DescribedReport described_report() {
  std::ifstream file(CAMSHAFT_SOURCE_FOLDER "/include/camshaft/camshaft.h");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t first = text.find("{verification: [{");
  if (first == std::string::npos) throw std::runtime_error("camshaft.h does not describe the report");
  DescribedReport report;
  std::string list;  // whose entries are read; empty: none
  const std::regex token(R"(([a-z][a-z0-9_]*)(: \[\{)?|\}\]|\})");
  for (std::sregex_iterator at(text.begin() + static_cast<std::ptrdiff_t>(first), text.end(), token), none; at != none;
       ++at) {
    if (at->str() == "}") return report;
    if (at->str() == "}]") {
      list.clear();
    } else {
      (list.empty() ? report.keys : report.entries[list]).insert(at->str(1));
      if (at->length(2) > 0) list = at->str(1);
    }
  }
  throw std::runtime_error("camshaft.h does not end the report's description");
}

TEST(CApi, OptionsAreSetByName) {
  const Options options(CAMSHAFT_BUILD);
  EXPECT_EQ(camshaft_options_set(options.handle, "fp16", "true"), CAMSHAFT_OK);
  EXPECT_EQ(camshaft_options_set_number(options.handle, "tolerance", 0.25), CAMSHAFT_OK);
  EXPECT_EQ(camshaft_options_set_integer(options.handle, "tuning-seconds", 3), CAMSHAFT_OK);
  camshaft_record* value = nullptr;
  ASSERT_EQ(camshaft_options_get(options.handle, "fp16", &value), CAMSHAFT_OK);
  EXPECT_EQ(camshaft_record_boolean(value), 1);
  camshaft_record_free(value);
  ASSERT_EQ(camshaft_options_get(options.handle, "tolerance", &value), CAMSHAFT_OK);
  EXPECT_EQ(camshaft_record_number(value), 0.25);
  camshaft_record_free(value);
}

TEST(CApi, EveryOptionCanBeReadAndSetToWhatItIs) {
  for (const int32_t what : {CAMSHAFT_BUILD, CAMSHAFT_CONTEXT, CAMSHAFT_CALIBRATION})
    for (const Option& option : options_of(what)) {
      Settings settings;
      const nlohmann::json value = option.get(settings);
      if (option.kind != OptionKind::list) option.set(settings, value);
      EXPECT_EQ(option.get(settings), value) << option.name;
      EXPECT_EQ(&find_option(what, option.name), &option);
    }
}

TEST(CApi, AnUnknownOptionNamesWhatWasMeant) {
  const Options options(CAMSHAFT_BUILD);
  EXPECT_EQ(refusal(camshaft_options_set(options.handle, "thread", "1")),
            "no option is named 'thread'; did you mean 'threads'?");
  EXPECT_NE(refusal(camshaft_options_set(options.handle, "timing_cache", "x")).find("'timing-cache'"),
            std::string::npos);
  EXPECT_NE(refusal(camshaft_options_set(options.handle, "zzz", "1")).find("there are: device, fp16"),
            std::string::npos);
  const Options context(CAMSHAFT_CONTEXT);
  EXPECT_EQ(refusal(camshaft_options_set(context.handle, "fp16", "true")),
            "no option is named 'fp16'; there are: threads, shares-memory, max-operations, max-memory");
}

TEST(CApi, ValuesThatAreNoneAreRefused) {
  const Options options(CAMSHAFT_BUILD);
  EXPECT_EQ(refusal(camshaft_options_set(options.handle, "fp16", "yes")),
            "the option 'fp16' takes true or false, not 'yes'");
  EXPECT_EQ(refusal(camshaft_options_set(options.handle, "threads", "2x")),
            "the option 'threads' takes an integer, not '2x'");
  EXPECT_NE(refusal(camshaft_options_set_boolean(options.handle, "threads", 1)).find("takes integer"),
            std::string::npos);
  EXPECT_NE(refusal(camshaft_options_set(options.handle, "tuning", "quick")).find("heuristic, measure or locked"),
            std::string::npos);
}

TEST(CApi, NumbersThatMeanNothingAreRefused) {
  const Options build(CAMSHAFT_BUILD), context(CAMSHAFT_CONTEXT);
  for (const double tolerance : {-0.5, double{INFINITY}, -double{INFINITY}, double{NAN}})
    EXPECT_NE(refusal(camshaft_options_set_number(build.handle, "tolerance", tolerance)).find("tolerance cannot be"),
              std::string::npos);
  for (const char* tolerance : {"-1", "inf", "nan"})
    EXPECT_NE(refusal(camshaft_options_set(build.handle, "tolerance", tolerance)).find("tolerance cannot be"),
              std::string::npos);
  refusal(camshaft_options_set_integer(build.handle, "tolerance", -1));
  EXPECT_EQ(camshaft_options_set_number(build.handle, "tolerance", 0), CAMSHAFT_OK);
  for (const Options* options : {&build, &context}) {
    EXPECT_EQ(refusal(camshaft_options_set_integer(options->handle, "threads", -1)),
              "threads cannot be -1; give 1 or more, or 0 for one for each core");
    EXPECT_EQ(refusal(camshaft_options_set_integer(options->handle, "threads", 100000)),
              "100000 threads were asked for; give 1 to 1024");
    refusal(camshaft_options_set_integer(options->handle, "threads", int64_t{1} << 31));
    EXPECT_EQ(camshaft_options_set_integer(options->handle, "threads", 0), CAMSHAFT_OK);
  }
}

TEST(CApi, NullPointersAreRefusedByName) {
  EXPECT_EQ(refusal(camshaft_options_get(nullptr, "fp16", nullptr)), "the argument 'options' is a null pointer");
  camshaft_engine* engine = nullptr;
  EXPECT_EQ(refusal(camshaft_engine_load_file(nullptr, nullptr, &engine)), "the argument 'path' is a null pointer");
  // With all else valid, nothing may be made for a place that is not there: the sanitizers' builds see a lost handle.
  EXPECT_EQ(refusal(camshaft_options_create(CAMSHAFT_BUILD, nullptr)), "the argument 'options' is a null pointer");
  EXPECT_EQ(refusal(camshaft_tensors_create(nullptr)), "the argument 'tensors' is a null pointer");
  EXPECT_EQ(refusal(camshaft_workers_create(1, nullptr)), "the argument 'workers' is a null pointer");
  EXPECT_EQ(refusal(camshaft_list_operators(nullptr)), "the argument 'operators' is a null pointer");
  EXPECT_EQ(refusal(camshaft_device_parse("cpu", nullptr)), "the argument 'device' is a null pointer");
}

TEST(CApi, DevicesHaveNames) {
  camshaft_device device{};
  ASSERT_EQ(camshaft_device_parse("cuda:3", &device), CAMSHAFT_OK);
  EXPECT_EQ(device.type, 2);
  EXPECT_EQ(device.ordinal, 3);
  ASSERT_EQ(camshaft_device_parse("cpu", &device), CAMSHAFT_OK);
  EXPECT_EQ(device.type, 1);
  EXPECT_NE(refusal(camshaft_device_parse("gpu", &device)).find("'gpu' is no device"), std::string::npos);
}

TEST(CApi, EachThreadHasItsOwnMessage) {
  EXPECT_EQ(refusal(camshaft_options_create(7, nullptr)).substr(0, 1), "7");
  std::thread([] { EXPECT_STREQ(camshaft_error_message(), ""); }).join();
  EXPECT_EQ(std::string(camshaft_error_message()).substr(0, 1), "7");
}

TEST(CApi, EnginesInMemoryAreCheckedAsFilesAre) {
  const std::vector<char> bytes(100, 'x');
  camshaft_engine* engine = nullptr;
  EXPECT_EQ(camshaft_engine_load_memory(bytes.data(), bytes.size(), nullptr, &engine), CAMSHAFT_CORRUPT_ENGINE);
  EXPECT_EQ(camshaft_build_memory(bytes.data(), bytes.size(), "bytes", nullptr, nullptr, &engine, nullptr),
            CAMSHAFT_INVALID_MODEL);
  EXPECT_NE(std::string(camshaft_error_message()).find("bytes"), std::string::npos);
  EXPECT_EQ(engine, nullptr);
}

TEST(CApi, ModelsAreBuiltSavedLoadedAndRunInMemory) {
  const std::string model = doubling_model();
  const Options build(CAMSHAFT_BUILD), options(CAMSHAFT_CONTEXT);
  ASSERT_EQ(camshaft_options_set(build.handle, "tuning", "heuristic"), CAMSHAFT_OK);
  camshaft_engine *built = nullptr, *engine = nullptr;
  camshaft_record* report = nullptr;
  ASSERT_EQ(camshaft_build_memory(model.data(), model.size(), "doubling.onnx", nullptr, build.handle, &built, &report),
            CAMSHAFT_OK)
      << camshaft_error_message();
  EXPECT_EQ(camshaft_record_integer(camshaft_record_get(report, "model_nodes")), 1);
  EXPECT_GT(camshaft_record_size(camshaft_record_get(report, "passes")), 0u);
  const auto keys_of = [](const camshaft_record* record) {
    std::set<std::string> keys;
    for (size_t i = 0; i < camshaft_record_size(record); ++i) keys.insert(camshaft_record_key(record, i));
    return keys;
  };
  const DescribedReport described = described_report();
  EXPECT_EQ(keys_of(report), described.keys);
  EXPECT_EQ(keys_of(camshaft_record_at(camshaft_record_get(report, "verification"), 0)),
            described.entries.at("verification"));
  camshaft_record_free(report);
  void* file = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(camshaft_engine_save_memory(built, &file, &bytes), CAMSHAFT_OK);
  camshaft_engine_free(built);
  EXPECT_EQ(refusal(camshaft_engine_load_memory(file, bytes, nullptr, nullptr)),
            "the argument 'engine' is a null pointer");
  const Options cuda(CAMSHAFT_LOAD), cpu(CAMSHAFT_LOAD);
  ASSERT_EQ(camshaft_options_set(cuda.handle, "device", "cuda"), CAMSHAFT_OK);
  ASSERT_EQ(camshaft_options_set(cpu.handle, "device", "cpu"), CAMSHAFT_OK);
  EXPECT_NE(refusal(camshaft_engine_load_memory(file, bytes, cuda.handle, &engine)).find("built for cpu"),
            std::string::npos);
  ASSERT_EQ(camshaft_engine_load_memory(file, bytes, cpu.handle, &engine), CAMSHAFT_OK) << camshaft_error_message();
  camshaft_free(file);
  EXPECT_EQ(camshaft_engine_device(engine).type, 1);

  camshaft_workers* workers = nullptr;
  ASSERT_EQ(camshaft_workers_create(1, &workers), CAMSHAFT_OK);
  ASSERT_EQ(camshaft_options_set_workers(options.handle, workers), CAMSHAFT_OK);
  refusal(camshaft_options_set_workers(build.handle, workers));
  camshaft_workers_free(workers);  // the options keep them
  EXPECT_EQ(refusal(camshaft_context_create(engine, options.handle, nullptr)),
            "the argument 'context' is a null pointer");
  camshaft_context* context = nullptr;
  ASSERT_EQ(camshaft_context_create(engine, options.handle, &context), CAMSHAFT_OK);
  camshaft_engine_free(engine);  // the context keeps it
  const float x[] = {1.5f, -2};
  ASSERT_EQ(camshaft_context_bind_input(context, "x", x, sizeof x, {1, 0}), CAMSHAFT_OK);
  const auto tap = [](void*, const camshaft_tensor*) -> int32_t { return 0; };
  EXPECT_NE(refusal(camshaft_context_set_tap(context, "z", tap, nullptr)).find("in the option debug-tensors"),
            std::string::npos);
  ASSERT_EQ(camshaft_context_run(context), CAMSHAFT_OK) << camshaft_error_message();
  EXPECT_EQ(refusal(camshaft_context_output(context, "y", nullptr)), "the argument 'output' is a null pointer");
  camshaft_tensor* y = nullptr;
  ASSERT_EQ(camshaft_context_output(context, "y", &y), CAMSHAFT_OK);
  const auto* doubled = static_cast<const float*>(camshaft_tensor_data(y));
  EXPECT_EQ(std::vector<float>(doubled, doubled + 2), (std::vector<float>{3, -4}));
  camshaft_tensor_free(y);
  camshaft_context_free(context);
}

TEST(CApi, RecordsOfAnotherKindAreZero) {
  camshaft_record* record = new_record({{"number", 2.5}, {"infinite", INFINITY}, {"integer", 3}, {"text", "7"}});
  const auto value = [&](const char* key) { return camshaft_record_get(record, key); };
  EXPECT_EQ(camshaft_record_integer(value("number")), 0);
  EXPECT_EQ(camshaft_record_integer(value("infinite")), 0);
  EXPECT_EQ(camshaft_record_integer(value("text")), 0);
  EXPECT_EQ(camshaft_record_integer(value("integer")), 3);
  EXPECT_EQ(camshaft_record_number(value("integer")), 3);
  EXPECT_EQ(camshaft_record_number(value("infinite")), INFINITY);
  EXPECT_EQ(camshaft_record_number(value("text")), 0);
  EXPECT_EQ(camshaft_record_boolean(value("integer")), 0);
  EXPECT_STREQ(camshaft_record_text(value("integer"), nullptr), "");
  camshaft_record_free(record);
}

TEST(CApi, ThereIsACore) {
  EXPECT_EQ(camshaft_available_cores(), available_cores());
}

TEST(CApi, EvaluationTakesZeroThreadsForOneACore) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/doubling.onnx";
  std::ofstream(path, std::ios::binary) << doubling_model();
  const float x[] = {1.5f, -2};
  const int64_t two = 2;
  camshaft_tensor* tensor = nullptr;
  ASSERT_EQ(camshaft_tensor_view(CAMSHAFT_F32, 1, &two, x, sizeof x, {1, 0}, &tensor), CAMSHAFT_OK);
  camshaft_tensors *inputs = nullptr, *outputs = nullptr;
  ASSERT_EQ(camshaft_tensors_create(&inputs), CAMSHAFT_OK);
  ASSERT_EQ(camshaft_tensors_add(inputs, "x", tensor), CAMSHAFT_OK);
  EXPECT_EQ(refusal(camshaft_evaluate_file(path.c_str(), inputs, -1, 0, 0, &outputs)),
            "-1 threads; give 1 or more, or 0 for one for each core");
  EXPECT_EQ(refusal(camshaft_evaluate_file(path.c_str(), inputs, 100000, 0, 0, &outputs)),
            "100000 threads were asked for; give 1 to 1024");
  ASSERT_EQ(camshaft_evaluate_file(path.c_str(), inputs, 0, 0, 0, &outputs), CAMSHAFT_OK) << camshaft_error_message();
  EXPECT_EQ(camshaft_tensors_count(outputs), 1u);
  for (camshaft_tensors* tensors : {inputs, outputs}) camshaft_tensors_free(tensors);
  camshaft_tensor_free(tensor);
}

TEST(CApi, DTypesHaveNamesAndNumbers) {
  for (camshaft_dtype dtype = 0; camshaft_dtype_name(dtype) != nullptr; ++dtype) {
    camshaft_dtype parsed = -1;
    EXPECT_EQ(camshaft_dtype_parse(camshaft_dtype_name(dtype), &parsed), CAMSHAFT_OK);
    EXPECT_EQ(parsed, dtype);
  }
  EXPECT_EQ(camshaft_dtype_name(CAMSHAFT_MAP + 1), nullptr);
  EXPECT_EQ(camshaft_dtype_bits(CAMSHAFT_I4), 4);
  EXPECT_EQ(camshaft_dtype_bits(CAMSHAFT_STRING), 0);
}

TEST(CApi, TensorsHoldStringsAndContainers) {
  const int64_t two = 2;
  camshaft_tensor *strings = nullptr, *sequence = nullptr;
  ASSERT_EQ(camshaft_tensor_create(CAMSHAFT_STRING, 1, &two, &strings), CAMSHAFT_OK);
  ASSERT_EQ(camshaft_tensor_set_text(strings, 1, "a\0b", 3), CAMSHAFT_OK);
  refusal(camshaft_tensor_set_text(strings, 2, "x", 1));
  ASSERT_EQ(camshaft_tensor_container(CAMSHAFT_SEQUENCE, &strings, 1, &sequence), CAMSHAFT_OK);
  camshaft_tensor_free(strings);  // the sequence has copies
  ASSERT_EQ(camshaft_tensor_count(sequence), 1u);
  size_t length = 0;
  const char* text = camshaft_tensor_text(camshaft_tensor_element(sequence, 0), 1, &length);
  EXPECT_EQ(std::string(text, length), std::string("a\0b", 3));
  EXPECT_EQ(camshaft_tensor_element(sequence, 1), nullptr);
  camshaft_tensor_free(sequence);
}

TEST(CApi, ViewsAreCheckedAndConverted) {
  const int64_t dims[] = {3};
  const uint16_t halves[] = {0x3c00, 0xc000, 0x7c00};
  camshaft_tensor *view = nullptr, *wide = nullptr;
  EXPECT_EQ(refusal(camshaft_tensor_view(CAMSHAFT_F16, 1, dims, halves, 4, {1, 0}, &view)),
            "a tensor f16[3] needs 6 bytes, 4 are given");
  EXPECT_NE(refusal(camshaft_tensor_view(CAMSHAFT_F16, 1, dims, halves, 6, {9, 0}, &view)).find("type 9"),
            std::string::npos);
  ASSERT_EQ(camshaft_tensor_view(CAMSHAFT_F16, 1, dims, halves, 6, {1, 0}, &view), CAMSHAFT_OK);
  ASSERT_EQ(camshaft_tensor_convert(view, CAMSHAFT_F32, &wide), CAMSHAFT_OK);
  const auto* floats = static_cast<const float*>(camshaft_tensor_data(wide));
  EXPECT_EQ(std::vector<float>(floats, floats + 2), (std::vector<float>{1, -2}));
  camshaft_tensor_free(wide);
  refusal(camshaft_tensor_convert(view, CAMSHAFT_I64, &wide));
  camshaft_tensor_free(view);
}

}  // namespace
}  // namespace camshaft::api::c_api_test

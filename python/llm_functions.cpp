// Functions over generators of text, which camshaft.llm makes a class of.
#include <Python.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "beside.h"
#include "camshaft/communicator.hpp"
#include "camshaft/error.hpp"
#include "functions.h"
#include "llm/engine_model.h"
#include "llm/generator.h"
#include "llm/ranked_model.h"
#include "objects.h"

namespace camshaft::python {

namespace {

constexpr const char* generator_name = "camshaft.generator";
constexpr const char* rows_name = "camshaft.image_embeddings";
constexpr const char* slot_name = "camshaft.image_slot";

/// Threads of Python may add requests while another one runs a step: they wait, without Python's lock.
struct HeldGenerator {
  /// `drafter`: the engine of a draft model, or null. `ranks`: those of the other ranks, in this process, or by the
  /// communicator in others; neither of a model in one rank.
  HeldGenerator(const Engine& engine, const Engine* drafter, const std::vector<Engine>& ranks,
                const Communicator* communicator, const llm::GeneratorConfig& config, int threads)
      : model(model_of(engine, ranks, communicator, config, threads)),
        draft(drafter == nullptr ? nullptr
                                 : std::make_unique<llm::EngineModel>(*drafter, config.draft.num_blocks, threads)),
        generator(*model, config, draft.get()) {}
  static std::unique_ptr<llm::StepModel> model_of(const Engine& engine, const std::vector<Engine>& ranks,
                                                  const Communicator* communicator, const llm::GeneratorConfig& config,
                                                  int threads) {
    const int32_t blocks = llm::checked(config.scheduler).num_blocks;
    if (communicator != nullptr) return std::make_unique<llm::RankedModel>(engine, *communicator, blocks, threads);
    if (!ranks.empty()) return std::make_unique<llm::RankedModel>(engine, ranks, blocks, threads);
    return std::make_unique<llm::EngineModel>(engine, blocks, threads, config.num_cross_blocks, config.max_loras);
  }
  std::mutex mutex;
  std::unique_ptr<llm::StepModel> model;
  std::unique_ptr<llm::EngineModel> draft;
  llm::Generator generator;
};

HeldGenerator& held_of(PyObject* capsule) {
  auto* const held = static_cast<HeldGenerator*>(PyCapsule_GetPointer(capsule, generator_name));
  if (held == nullptr) throw PythonError();
  return *held;
}

/// `use` with the generator to itself, and without Python's lock.
template <class Use>
auto alone(PyObject* capsule, const Use& use) {
  HeldGenerator& held = held_of(capsule);
  const Unlocked unlocked;
  const std::lock_guard lock(held.mutex);
  return use(held.generator);
}

PyObject* cache_of(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const llm::EngineModel::Cache cache = llm::EngineModel::cache_of(engine_of(capsule));
    return checked(Py_BuildValue("iiK", static_cast<int>(cache.layers), static_cast<int>(cache.block_size),
                                 static_cast<unsigned long long>(cache.block_bytes)));
  });
}

PyObject* cross_cache_of(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const llm::EngineModel::Cache cache = llm::EngineModel::cache_of(engine_of(capsule));
    return checked(Py_BuildValue("iiK", static_cast<int>(cache.cross.table_width),
                                 static_cast<int>(cache.cross.block_size),
                                 static_cast<unsigned long long>(cache.cross_block_bytes)));
  });
}

// The memory stays where it is as long as the generator is there.
PyObject* cross_memory(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const auto* const model = dynamic_cast<const llm::EngineModel*>(held_of(capsule).model.get());
    std::vector<std::pair<std::string, const Tensor*>> memory;
    if (model != nullptr) memory = model->cross_memory();
    return list_of(memory, [](const std::pair<std::string, const Tensor*>& each) {
      const Tensor& tensor = *each.second;
      const Reference dims(list_of(tensor.dims(), [](int64_t size) { return PyLong_FromLongLong(size); }));
      if (!dims) return static_cast<PyObject*>(nullptr);
      return Py_BuildValue(
          "sKsOs", each.first.c_str(), static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(tensor.data())),
          std::string(to_string(tensor.dtype())).c_str(), dims.get(), to_string(tensor.device()).c_str());
    });
  });
}

PyObject* create_generator(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *draft = nullptr, *others = nullptr, *over = nullptr;
  const char* json = nullptr;
  int threads = 0;
  if (PyArg_ParseTuple(arguments, "OOsiOO", &capsule, &draft, &json, &threads, &others, &over) == 0) return nullptr;
  return guarded([&] {
    Engine& engine = engine_of(capsule);
    const Engine* const drafter = draft == Py_None ? nullptr : &engine_of(draft);
    const Communicator* const communicator = over == Py_None ? nullptr : &communicator_of(over);
    std::vector<Engine> ranks;
    for (Py_ssize_t r = 0; r < PyList_Size(others); ++r) ranks.push_back(engine_of(PyList_GetItem(others, r)));
    llm::GeneratorConfig config = llm::parse_generator_config(json);
    const int32_t block_size = llm::EngineModel::cache_of(engine).block_size;
    // Without a cache a block is what a sequence takes of nothing.
    config.scheduler.block_size = block_size > 0 ? block_size : std::max(config.scheduler.max_model_len, 1);
    if (drafter != nullptr) config.draft.block_size = llm::EngineModel::cache_of(*drafter).block_size;
    std::unique_ptr<HeldGenerator> held;
    {
      const Unlocked unlocked;
      held = std::make_unique<HeldGenerator>(engine, drafter, ranks, communicator, config, threads);
    }
    PyObject* const made = checked(PyCapsule_New(held.get(), generator_name, [](PyObject* object) {
      delete static_cast<HeldGenerator*>(PyCapsule_GetPointer(object, generator_name));
    }));
    static_cast<void>(held.release());
    return made;
  });
}

// Rows of pictures that somebody holds.
std::atomic<int64_t> bytes_of_images{0};

struct CountedRows {
  explicit CountedRows(std::vector<float> rows) : values(std::move(rows)) { bytes_of_images += bytes(); }
  ~CountedRows() { bytes_of_images -= bytes(); }
  CountedRows(const CountedRows&) = delete;
  CountedRows& operator=(const CountedRows&) = delete;
  int64_t bytes() const { return static_cast<int64_t>(values.size() * sizeof(float)); }
  std::vector<float> values;
};

template <class T>
PyObject* shared_capsule(std::shared_ptr<T> shared, const char* name) {
  auto held = std::make_unique<std::shared_ptr<T>>(std::move(shared));
  PyObject* const capsule = checked(PyCapsule_New(held.get(), name, [](PyObject* object) {
    delete static_cast<std::shared_ptr<T>*>(PyCapsule_GetPointer(object, PyCapsule_GetName(object)));
  }));
  static_cast<void>(held.release());
  return capsule;
}

template <class T>
const std::shared_ptr<T>& shared_of(PyObject* capsule, const char* name) {
  const auto* const held = static_cast<const std::shared_ptr<T>*>(PyCapsule_GetPointer(capsule, name));
  if (held == nullptr) throw PythonError();
  return *held;
}

PyObject* image_embeddings(PyObject*, PyObject* arguments) {
  unsigned long long address = 0;
  Py_ssize_t count = 0;
  if (PyArg_ParseTuple(arguments, "Kn", &address, &count) == 0) return nullptr;
  return guarded([&] {
    const auto* const values = reinterpret_cast<const float*>(static_cast<uintptr_t>(address));
    return shared_capsule(std::make_shared<const CountedRows>(std::vector<float>(values, values + count)), rows_name);
  });
}

PyObject* image_slot(PyObject*, PyObject* count) {
  const Py_ssize_t elements = PyLong_AsSsize_t(count);
  if (elements == -1 && PyErr_Occurred() != nullptr) return nullptr;
  return guarded([&] {
    auto slot = std::make_shared<llm::ImageRows>();
    slot->count = static_cast<size_t>(elements);
    return shared_capsule(std::move(slot), slot_name);
  });
}

// Before the request is added, or between two steps.
PyObject* fill_image(PyObject*, PyObject* arguments) {
  PyObject *slot = nullptr, *rows = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &slot, &rows) == 0) return nullptr;
  return guarded([&] {
    const auto& counted = shared_of<const CountedRows>(rows, rows_name);
    llm::ImageRows& filled = *shared_of<llm::ImageRows>(slot, slot_name);
    if (counted->values.size() != filled.count)
      throw Error(ErrorCode::invalid_argument, fmt::format("a picture has {} elements of embeddings, {} are wanted",
                                                           counted->values.size(), filled.count));
    filled.values = {counted, &counted->values};
    return none();
  });
}

PyObject* follow(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *over = nullptr;
  int threads = 0;
  if (PyArg_ParseTuple(arguments, "OOi", &capsule, &over, &threads) == 0) return nullptr;
  return guarded([&] {
    const Engine engine = engine_of(capsule);
    const Communicator communicator = communicator_of(over);
    run_beside([engine, communicator, threads] { llm::follow_ranks(engine, communicator, threads); },
               [communicator] { communicator.abort(fmt::format("rank {} was interrupted", communicator.rank())); });
    return none();
  });
}

PyObject* image_bytes(PyObject*, PyObject*) {
  return PyLong_FromLongLong(bytes_of_images);
}

PyObject* wants_images(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const llm::RequestId id = alone(capsule, [](const llm::Generator& generator) { return generator.wants_images(); });
    return checked(PyLong_FromUnsignedLongLong(id));
  });
}

// Of (first token, rows, height, width, digest of 16 bytes, capsule of image_slot()).
llm::Picture picture_of(PyObject* tuple) {
  llm::Picture picture;
  const char* digest = nullptr;
  Py_ssize_t size = 0;
  PyObject* rows = nullptr;
  if (PyArg_ParseTuple(tuple, "iiiiy#O", &picture.begin, &picture.rows, &picture.height, &picture.width, &digest, &size,
                       &rows) == 0)
    throw PythonError();
  if (size != sizeof picture.digest)
    throw Error(ErrorCode::invalid_argument, fmt::format("the digest of a picture has {} bytes, not 16", size));
  std::memcpy(picture.digest.data(), digest, sizeof picture.digest);
  picture.embeddings = shared_of<llm::ImageRows>(rows, slot_name);
  return picture;
}

PyObject* add(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *prompt = nullptr;
  const char* params = nullptr;
  int priority = 0;
  unsigned long long salt = 0;
  PyObject *cross_blocks = nullptr, *pictures = nullptr;
  int cross_length = 0, lora = -1;
  if (PyArg_ParseTuple(arguments, "OOsiK|OiO!i", &capsule, &prompt, &params, &priority, &salt, &cross_blocks,
                       &cross_length, &PyList_Type, &pictures, &lora) == 0)
    return nullptr;
  return guarded([&] {
    llm::Request request;
    request.params = llm::parse_sampling_params(params);
    request.priority = priority;
    request.salt = salt;
    request.lora = lora;
    for (const int64_t token : numbers_of(prompt)) {
      if (token < 0 || token > std::numeric_limits<int32_t>::max())
        throw Error(ErrorCode::invalid_argument, fmt::format("the prompt has a token {}", token));
      request.prompt.push_back(static_cast<int32_t>(token));
    }
    if (cross_blocks != nullptr)
      for (const int64_t block : numbers_of(cross_blocks))
        request.cross.blocks.push_back(static_cast<int32_t>(std::clamp<int64_t>(block, -1, INT32_MAX)));
    request.cross.length = cross_length;
    for (Py_ssize_t i = 0; pictures != nullptr && i < PyList_Size(pictures); ++i)
      request.pictures.push_back(picture_of(PyList_GetItem(pictures, i)));
    const llm::RequestId id =
        alone(capsule, [&](llm::Generator& generator) { return generator.add(std::move(request)); });
    return checked(PyLong_FromUnsignedLongLong(id));
  });
}

PyObject* set_lora(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *listed = nullptr;
  int lora = 0;
  if (PyArg_ParseTuple(arguments, "OiO!", &capsule, &lora, &PyList_Type, &listed) == 0) return nullptr;
  return guarded([&] {
    std::map<std::string, std::span<const std::byte>> matrices;
    for (Py_ssize_t i = 0; i < PyList_Size(listed); ++i) {
      const char* input = nullptr;
      unsigned long long address = 0, bytes = 0;
      if (PyArg_ParseTuple(PyList_GetItem(listed, i), "sKK", &input, &address, &bytes) == 0) throw PythonError();
      matrices[input] = {reinterpret_cast<const std::byte*>(static_cast<uintptr_t>(address)),
                         static_cast<size_t>(bytes)};
    }
    HeldGenerator& held = held_of(capsule);
    {
      const Unlocked unlocked;
      const std::lock_guard lock(held.mutex);
      auto* const model = dynamic_cast<llm::EngineModel*>(held.model.get());
      if (model == nullptr) throw Error(ErrorCode::unsupported, "models of several ranks have no adapters");
      model->set_lora(lora, matrices);
    }
    return none();
  });
}

PyObject* abort(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  unsigned long long request = 0;
  int sample = -1;
  if (PyArg_ParseTuple(arguments, "OKi", &capsule, &request, &sample) == 0) return nullptr;
  return guarded([&] {
    const bool ended = alone(capsule, [&](llm::Generator& generator) { return generator.abort(request, sample); });
    return PyBool_FromLong(ended);
  });
}

PyObject* set_allowed_tokens(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *mask = nullptr;
  unsigned long long request = 0;
  int sample = 0;
  if (PyArg_ParseTuple(arguments, "OKiO!", &capsule, &request, &sample, &PyBytes_Type, &mask) == 0) return nullptr;
  return guarded([&] {
    char* bytes = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(mask, &bytes, &size) != 0) throw PythonError();
    if (size % 4 != 0)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the mask of allowed tokens has {} bytes, no whole number of words of 32 bits", size));
    std::vector<uint32_t> words(static_cast<size_t>(size) / 4);
    if (size > 0) std::memcpy(words.data(), bytes, static_cast<size_t>(size));
    alone(capsule, [&](llm::Generator& generator) { generator.set_allowed_tokens(request, sample, words); });
    return none();
  });
}

PyObject* has_work(PyObject*, PyObject* capsule) {
  return guarded(
      [&] { return PyBool_FromLong(alone(capsule, [](llm::Generator& generator) { return generator.has_work(); })); });
}

// What an event holds, while others may use the generator again.
struct HeldEvent {
  llm::Event event;
  std::vector<int32_t> tokens;
  std::vector<llm::TokenLogprob> logprobs, prompt_logprobs;
  std::vector<float> embedding;
};

PyObject* list_of_logprobs(const std::vector<llm::TokenLogprob>& logprobs) {
  return list_of(logprobs, [](const llm::TokenLogprob& each) {
    return Py_BuildValue("idi", static_cast<int>(each.token), static_cast<double>(each.logprob),
                         static_cast<int>(each.rank));
  });
}

const char* name_of(llm::FinishReason reason) {
  switch (reason) {
    case llm::FinishReason::none:
      return nullptr;
    case llm::FinishReason::stop:
      return "stop";
    case llm::FinishReason::length:
      return "length";
    case llm::FinishReason::abort:
      return "abort";
    case llm::FinishReason::error:
      return "error";
  }
  return nullptr;
}

PyObject* described_event(const HeldEvent& held) {
  const Reference tokens(list_of(held.tokens, [](int32_t token) { return PyLong_FromLong(token); }));
  const Reference logprobs(list_of_logprobs(held.logprobs)), prompt(list_of_logprobs(held.prompt_logprobs));
  if (!tokens || !logprobs || !prompt) return nullptr;
  const llm::Event& event = held.event;
  const auto* const embedding = held.embedding.empty() ? nullptr : reinterpret_cast<const char*>(held.embedding.data());
  return Py_BuildValue("KiOOiOzisy#id", static_cast<unsigned long long>(event.request), static_cast<int>(event.sample),
                       tokens.get(), logprobs.get(), static_cast<int>(event.first_prompt_token), prompt.get(),
                       name_of(event.finish), static_cast<int>(event.stop_token), event.error.c_str(), embedding,
                       static_cast<Py_ssize_t>(held.embedding.size() * sizeof(float)),
                       static_cast<int>(event.cached_tokens), event.cumulative_logprob);
}

PyObject* described_rows(const llm::GuidedRows& rows) {
  const Reference drafts(list_of(rows.drafts, [](int32_t token) { return PyLong_FromLong(token); }));
  if (!drafts) return nullptr;
  return Py_BuildValue("KiOn", static_cast<unsigned long long>(rows.request), static_cast<int>(rows.sample),
                       drafts.get(), static_cast<Py_ssize_t>(rows.row));
}

PyObject* plan(PyObject*, PyObject* capsule) {
  return guarded([&] {
    std::span<const llm::GuidedRows> rows;
    std::span<uint32_t> masks;
    size_t words = 0;
    alone(capsule, [&](llm::Generator& generator) {
      rows = generator.plan_step();
      masks = generator.guide_masks();
      words = generator.mask_words();
    });
    const Reference guided(list_of(rows, described_rows));
    if (!guided) {
      alone(capsule, [](llm::Generator& generator) { generator.finish_step(); });
      throw PythonError();
    }
    return checked(Py_BuildValue("KnnO", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(masks.data())),
                                 static_cast<Py_ssize_t>(words * sizeof(uint32_t)),
                                 static_cast<Py_ssize_t>(masks.size() / words), guided.get()));
  });
}

PyObject* run_planned(PyObject*, PyObject* capsule) {
  return guarded([&] {
    alone(capsule, [](llm::Generator& generator) { generator.run_step(); });
    return none();
  });
}

PyObject* finish(PyObject*, PyObject* capsule) {
  return guarded([&] {
    std::vector<HeldEvent> held;
    alone(capsule, [&](llm::Generator& generator) {
      for (const llm::Event& event : generator.finish_step())
        held.push_back({event,
                        {event.tokens.begin(), event.tokens.end()},
                        {event.logprobs.begin(), event.logprobs.end()},
                        {event.prompt_logprobs.begin(), event.prompt_logprobs.end()},
                        {event.embedding.begin(), event.embedding.end()}});
    });
    return list_of(held, described_event);
  });
}

PyObject* statistics(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const llm::GeneratorStatistics s =
        alone(capsule, [](const llm::Generator& generator) { return generator.statistics(); });
    Reference made(checked(PyDict_New()));
    for (const auto& [name, value] : {std::pair("steps", s.steps),
                                      std::pair("tokens", s.tokens),
                                      std::pair("padding", s.padding),
                                      std::pair("generated", s.generated),
                                      std::pair("drafted", s.drafted),
                                      std::pair("accepted", s.accepted),
                                      std::pair("drafts", s.drafts),
                                      std::pair("preemptions", s.preemptions),
                                      std::pair("running", s.running),
                                      std::pair("waiting", s.waiting),
                                      std::pair("blocks", s.blocks),
                                      std::pair("free_blocks", s.free_blocks),
                                      std::pair("prefix_queried", s.prefix_queried),
                                      std::pair("prefix_hit", s.prefix_hit),
                                      std::pair("evictions", s.evictions),
                                      std::pair("host_blocks", s.host_blocks),
                                      std::pair("offloaded", s.offloaded),
                                      std::pair("restored", s.restored),
                                      std::pair("draft_steps", s.draft_steps),
                                      std::pair("draft_blocks", s.draft_blocks),
                                      std::pair("draft_free_blocks", s.draft_free_blocks)}) {
      const Reference number(checked(PyLong_FromLongLong(value)));
      if (PyDict_SetItemString(made.get(), name, number.get()) != 0) throw PythonError();
    }
    return made.release();
  });
}

}  // namespace

PyMethodDef llm_functions[] = {
    {"generator_cache", cache_of, METH_O, "generator_cache(engine) -> (layers, block_size, bytes of a block)"},
    {"generator_cross_cache", cross_cache_of, METH_O,
     "generator_cross_cache(engine) -> (most blocks of a sequence, block_size, bytes of a block); 0s without one"},
    {"generator_cross_memory", cross_memory, METH_O,
     "generator_cross_memory(generator) -> [(input, address, type, sizes, device)]"},
    {"create_generator", create_generator, METH_VARARGS,
     "create_generator(engine, engine of a draft or None, configuration, threads, [engines of the other ranks], "
     "communicator or None) -> generator"},
    {"follow_ranks", follow, METH_VARARGS,
     "follow_ranks(engine, communicator, threads): does what the generator of rank 0 says, until that is gone"},
    {"generator_add", add, METH_VARARGS,
     "generator_add(generator, prompt, parameters, priority, salt, blocks of an encoder's keys = (), number of these "
     "keys = 0, pictures = [], adapter = -1) -> request; a picture is (first token, rows, height, width, digest, "
     "image_embeddings())"},
    {"image_embeddings", image_embeddings, METH_VARARGS,
     "image_embeddings(address of f32, number of them) -> a copy, which requests share"},
    {"image_slot", image_slot, METH_O, "image_slot(number of f32) -> where fill_image() puts such a copy"},
    {"fill_image", fill_image, METH_VARARGS,
     "fill_image(slot, image_embeddings()): before its request is added, or between two steps"},
    {"image_bytes", image_bytes, METH_NOARGS, "image_bytes() -> of all such copies"},
    {"generator_wants_images", wants_images, METH_O,
     "generator_wants_images(generator) -> a request that would run if its slots were filled, or 0"},
    {"generator_set_lora", set_lora, METH_VARARGS,
     "generator_set_lora(generator, adapter, [(input, address, bytes)]): between steps; what it lacks is zeros"},
    {"generator_abort", abort, METH_VARARGS,
     "generator_abort(generator, request, sample or -1) -> whether there was one"},
    {"generator_set_allowed_tokens", set_allowed_tokens, METH_VARARGS,
     "generator_set_allowed_tokens(generator, request, sample, bytes of the bit mask)"},
    {"generator_has_work", has_work, METH_O, "generator_has_work(generator)"},
    {"generator_plan", plan, METH_O,
     "generator_plan(generator) -> (address of masks, bytes of one, masks, [(request, sample, guesses, first mask)])"},
    {"generator_run", run_planned, METH_O, "generator_run(generator): the model, of the step that was planned"},
    {"generator_finish", finish, METH_O,
     "generator_finish(generator) -> [(request, sample, tokens, logprobs, first token of the prompt, its logprobs, "
     "finish reason or None, stop token or -1, error, bytes of the embedding in f32 or None, tokens of the prompt that "
     "were in the cache or -1, logarithm of a searched text's probability)]"},
    {"generator_statistics", statistics, METH_O, "generator_statistics(generator) -> {name: number}"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace camshaft::python

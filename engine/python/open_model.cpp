#include "engine/python/open_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/python/errors.h"

namespace lockstep::python {
namespace {

Error closed() {
  return {ErrorKind::kFailedPrecondition,
          "[python] cannot use the model: found a closed one, expected an open one; make another lockstep.Model"};
}

constexpr size_t kAllSteps = 4096;  // that an engine remembers

Error in_row(const Error& error, size_t row, size_t rows) {
  if (rows == 1) return error;
  return {error.kind, fmt::format("{} (row {})", error.message, row), error.origin_rank};
}

OnToken streamed_to(const std::shared_ptr<CallState>& state) {
  return [state](const Token& token) {
    state->add_token({.index = token.answer,
                      .id = token.id == kNoToken ? std::nullopt : std::optional(token.id),
                      .text = std::string(token.text)});
    return Verdict::kContinue;
  };
}

}  // namespace

OpenModel::OpenModel(const std::string& directory, const ModelOptions& model_options)
    : model_(value_of(without_gil([&] { return Model::open(directory, model_options); }))) {}

OpenModel::OpenModel(const std::string& directory, int ranks, const ModelOptions& model_options, EngineOptions options,
                     nb::object log)
    : model_(value_of(without_gil([&] { return Model::open(directory, model_options); }))),
      options_(std::move(options)),
      log_(std::move(log)) {
  const auto opened = [&]() -> Result<void> {
    GroupOptions group = group_options(log_);
    LOCKSTEP_TRY(group_, ranks == 1 ? Group::alone(std::move(group)) : Group::threads(ranks, std::move(group)));
    return open(*group_);
  };
  const Result<void> done = without_gil(opened);
  if (!done.has_value()) without_gil([this] { group_.reset(); });
  value_of(done);
}

OpenModel::OpenModel(const std::string& directory, Ranks& ranks, const ModelOptions& model_options,
                     EngineOptions options)
    : model_(value_of(without_gil([&] { return Model::open(directory, model_options); }))),
      options_(std::move(options)) {
  value_of(without_gil([&] { return open(ranks.group()); }));
}

Result<void> OpenModel::open(Group& group) {
  LOCKSTEP_TRY(engine_, Engine::open(group, model_, options_));
  options_.slots = engine_->facts().slots;
  options_.capacity = engine_->facts().capacity;
  return ok();
}

OpenModel::~OpenModel() {
  if (engine_ == nullptr) return;
  if (!state_->is_inside_callback()) {
    static_cast<void>(without_gil([this] { return end(); }));
    return;
  }
  // Python's collector runs in a callback and frees the model; this thread cannot wait for its own end.
  state_->cancel_calls();
  give_up();
  static_cast<void>(log_.release());
}

bool OpenModel::is_open() const {
  return without_gil([this] {
    std::shared_lock lock(mutex_);
    return engine_ != nullptr;
  });
}

EngineFacts OpenModel::facts() const {
  return without_gil([this] {
    std::shared_lock lock(mutex_);
    return engine_ != nullptr ? engine_->facts() : last_facts_;
  });
}

EngineCounters OpenModel::counters() const {
  return without_gil([this] {
    std::shared_lock lock(mutex_);
    return engine_ != nullptr ? engine_->counters() : last_counters_;
  });
}

trace::Activity OpenModel::activity() const {
  return without_gil([this] {
    std::shared_lock lock(mutex_);
    return engine_ != nullptr ? engine_->activity(kAllSteps) : trace::Activity();
  });
}

Result<std::unique_ptr<PendingRequests>> OpenModel::submit_all(std::vector<Request> requests,
                                                               const std::shared_ptr<CallState>& state) {
  std::shared_lock lock(mutex_);
  if (engine_ == nullptr) return closed();
  for (size_t row = 0; row < requests.size(); ++row) {
    const Result<void> checked = check_request(model_, options_, requests[row]);
    if (!checked.has_value()) return in_row(checked.error(), row, requests.size());
  }
  LOCKSTEP_TRY(std::vector<RequestHandle> handles, engine_->submit(std::move(requests)));
  return std::make_unique<PendingRequests>(state, std::move(handles), static_cast<size_t>(model_.spec().vocabulary));
}

std::unique_ptr<PendingRequests> OpenModel::submit(std::vector<PromptRow> rows, const GenerationConfig& config,
                                                   const CallOptions& options, const Callbacks& callbacks) {
  const auto state = std::make_shared<CallState>(state_);
  const auto answers = static_cast<uint64_t>(std::max(config.num_return_sequences, 1));
  std::vector<Request> requests;
  requests.reserve(rows.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    Request& request = requests.emplace_back(Request{.prompt = {.ids = std::move(rows[row].ids),
                                                                .negative = std::move(rows[row].negative),
                                                                .masked_inside = rows[row].masked_inside,
                                                                .embeddings = std::move(rows[row].embeddings)},
                                                     .config = config,
                                                     .random_row = rows[row].number.value_or(row) * answers,
                                                     .special_text = options.special_text});
    if (options.streams) request.on_token = streamed_to(state);
    add_callbacks(request, callbacks, static_cast<int64_t>(row), state);
  }
  return value_of(without_gil([&] { return submit_all(std::move(requests), state); }));
}

std::unique_ptr<PendingTexts> OpenModel::submit_texts(const std::vector<std::vector<int32_t>>& texts, int64_t top) {
  const auto submitted = [&]() -> Result<std::unique_ptr<PendingTexts>> {
    std::shared_lock lock(mutex_);
    if (engine_ == nullptr) return closed();
    LOCKSTEP_TRY_VOID(check_texts(model_, options_, texts, top));
    std::vector<ScoreHandle> handles;
    for (const std::vector<int32_t>& ids : texts) {
      LOCKSTEP_TRY(ScoreHandle handle, engine_->submit_text(ids, top));
      handles.push_back(std::move(handle));
    }
    return std::make_unique<PendingTexts>(std::make_shared<CallState>(state_), std::move(handles));
  };
  return value_of(without_gil(submitted));
}

void OpenModel::close() {
  if (state_->is_inside_callback()) raise(inside_callback("close"));
  value_of(without_gil([this] { return end(); }));
}

Result<void> OpenModel::end() {
  std::unique_ptr<Engine> engine;
  {
    std::unique_lock lock(mutex_);
    if (engine_ == nullptr) return ok();
    last_facts_ = engine_->facts();
    last_counters_ = engine_->counters();
    engine = std::move(engine_);
  }
  state_->cancel_calls();
  const Result<void> ended = engine->close();
  {
    std::unique_lock lock(mutex_);
    last_facts_ = engine->facts();
    last_counters_ = engine->counters();
  }
  engine.reset();
  group_.reset();
  const nb::gil_scoped_acquire acquired;
  const std::vector<nb::object> released = state_->release_objects();
  return ended;
}

void OpenModel::give_up() {
  state_->is_disowned = true;
  static_cast<void>(engine_.release());
  static_cast<void>(group_.release());
}

void OpenModel::disown() {
  state_->is_fork = true;
  // A child has the objects of its parent's other threads and none of the threads that would let go of them.
  nb::set_leak_warnings(false);
  give_up();
  const std::vector<nb::object> released = state_->release_objects();
}

}  // namespace lockstep::python

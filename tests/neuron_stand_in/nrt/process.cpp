#include "tests/neuron_stand_in/nrt/process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <chrono>
#include <fstream>

#include "tests/neuron_stand_in/nrt/report.h"

namespace lockstep::stand_in {
namespace {

/// A planted hang ends at last, so that nothing is left behind by a test that was itself ended.
constexpr std::chrono::milliseconds kLongestHang = std::chrono::minutes(10);

}  // namespace

const Settings* Process::settings() {
  const std::lock_guard lock(mutex_);
  if (!settings_) {
    Result<Settings> read = settings_from_environment();
    if (!read) {
      refuse(nrt::NRT_INVALID, read.error().message);
      return nullptr;
    }
    settings_ = std::move(read).value();
    faults_.emplace(settings_->faults, settings_->visible_cores.front());
  }
  return &*settings_;
}

nrt::NRT_STATUS Process::start() {
  const Settings* settings = this->settings();
  if (settings == nullptr) return nrt::NRT_INVALID;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::kClosed) return nrt::NRT_CLOSED;
    if (phase_ == Phase::kStarted) return refuse(nrt::NRT_FAILURE, "nrt_init was called twice");
    phase_ = Phase::kStarted;
  }
  nrt::NRT_STATUS status = enter("init");
  if (status == nrt::NRT_SUCCESS) status = claims_.claim(settings->machine, settings->visible_cores);
  const std::lock_guard lock(mutex_);
  memory_ = std::make_unique<CoreMemory>(settings->visible_cores.size(), settings->core_memory);
  if (status != nrt::NRT_SUCCESS) phase_ = Phase::kNew;
  return status;
}

void Process::close() {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kStarted) return;
  phase_ = Phase::kClosed;
  models_.clear();
  meeting_.reset();
  memory_.reset();
  claims_.release();
}

nrt::NRT_STATUS Process::enter(const char* call) {
  std::optional<PlantedFault> planted;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::kNew) return refuse(nrt::NRT_UNINITIALIZED, fmt::format("{} before nrt_init", call));
    if (phase_ == Phase::kClosed) return refuse(nrt::NRT_CLOSED, fmt::format("{} after nrt_close", call));
    note(call);
    planted = faults_->next(call);
  }
  return planted ? act(*planted, call) : nrt::NRT_SUCCESS;
}

nrt::NRT_STATUS Process::act(const PlantedFault& fault, const char* call) {
  switch (fault.action) {
    case PlantedFault::Action::kStatus: break;
    case PlantedFault::Action::kDie: ::raise(SIGKILL); break;
    case PlantedFault::Action::kHang:
      ::poll(nullptr, 0, static_cast<int>(kLongestHang.count()));
      return refuse(nrt::NRT_TIMEOUT, fmt::format("{}: the planted hang is over", call));
  }
  return refuse(static_cast<nrt::NRT_STATUS>(fault.status), fmt::format("{}: planted", call));
}

/// A line per call, in a file of this process's first core.
void Process::note(const char* call) {
  if (settings_->log.empty()) return;
  std::ofstream log(settings_->log / fmt::format("core-{}.log", settings_->visible_cores.front()), std::ios::app);
  log << call << '\n';
}

nrt::NRT_STATUS Process::meet(const LoadRequest& request) {
  const Settings& settings = *settings_;
  if (meeting_ == nullptr) {
    if (settings.root_port == 0) {
      return refuse(nrt::NRT_FAILURE, "a load of several ranks needs NEURON_RT_ROOT_COMM_ID");
    }
    const Meeting::Options options{.host = settings.root_host,
                                   .port = settings.root_port,
                                   .rank = request.rank,
                                   .ranks = request.ranks,
                                   .limit = settings.load_limit};
    if (const auto status = Meeting::open(options, meeting_); status != nrt::NRT_SUCCESS) return status;
  }
  if (meeting_->options().rank != request.rank || meeting_->options().ranks != request.ranks) {
    return refuse(nrt::NRT_INVALID, "a process has one rank, the same in all of its models");
  }
  meeting_->set_limit(settings.load_limit);
  const nrt::NRT_STATUS status = agree_on_module(request, *meeting_);
  meeting_->set_limit(settings.execute_limit);
  return status;
}

nrt::NRT_STATUS Process::load(const LoadRequest& request, nrt::nrt_model_t** model) {
  const bool has_core = request.vnc >= -1 && request.vnc < static_cast<int>(memory_->cores());
  if (model == nullptr || !has_core || request.rank >= request.ranks) {
    return refuse(nrt::NRT_INVALID, fmt::format("a load on core {} of {} as rank {} of {}", request.vnc,
                                                memory_->cores(), request.rank, request.ranks));
  }
  std::unique_ptr<nrt::nrt_model_t> loaded;
  if (const auto status = load_model(request, *settings_, loaded); status != nrt::NRT_SUCCESS) return status;
  if (request.ranks > 1) {
    if (const auto status = meet(request); status != nrt::NRT_SUCCESS) return status;
  }
  loaded->vnc = std::max(request.vnc, 0);
  const std::lock_guard lock(mutex_);
  const auto status =
      memory_->charge(static_cast<size_t>(loaded->vnc), loaded->program->workspace_bytes(), "model " + loaded->name);
  if (status != nrt::NRT_SUCCESS) return status;
  *model = loaded.get();
  models_.emplace(*model, std::move(loaded));
  return nrt::NRT_SUCCESS;
}

nrt::NRT_STATUS Process::unload(nrt::nrt_model_t* model) {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end()) return refuse(nrt::NRT_INVALID_HANDLE, "unload: no such model");
  memory_->discharge(static_cast<size_t>(model->vnc), model->program->workspace_bytes());
  models_.erase(found);
  return nrt::NRT_SUCCESS;
}

nrt::NRT_STATUS Process::execute(nrt::nrt_model_t* model, const void* inputs, const void* outputs) {
  const TensorSet *in = nullptr, *out = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!models_.contains(model)) return refuse(nrt::NRT_INVALID_HANDLE, "execute: no such model");
    in = memory_->set_of(inputs);
    out = memory_->set_of(outputs);
  }
  if (in == nullptr || out == nullptr) return refuse(nrt::NRT_INVALID_HANDLE, "execute: no such tensor set");
  return execute_model(*model, *in, *out, meeting_.get());
}

nrt::nrt_model_t* Process::find(nrt::nrt_model_t* model) {
  const std::lock_guard lock(mutex_);
  return models_.contains(model) ? model : nullptr;
}

}  // namespace lockstep::stand_in

#include "engine/python/ranks.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <chrono>
#include <utility>

#include "engine/python/errors.h"

namespace lockstep::python {
namespace {

/// Calls a function of the package on a thread of the engine.
template <typename... Arguments>
void call(nb::handle function, std::string_view what, const Arguments&... arguments) {
  const nb::gil_scoped_acquire acquired;
  try {
    function(arguments...);
  } catch (nb::python_error& failure) {
    failure.discard_as_unraisable(what.data());
  }
}

}  // namespace

GroupOptions group_options(nb::handle log) {
  GroupOptions options;
  // The ranks wait for callbacks, which may take long (a debugger). A process that is lost is noticed by its silence.
  options.deadline = std::chrono::hours(24);
  options.log = [log](int rank, LogLevel level, std::string_view line) {
    call(log, "lockstep's log", rank, to_string(level), line);
  };
  return options;
}

Ranks::Ranks(std::optional<int> communicator, nb::object log, nb::object set_variable, nb::object end_process)
    : log_(std::move(log)), set_variable_(std::move(set_variable)), end_process_(std::move(end_process)) {
  group_ = value_of(without_gil([&] {
    GroupOptions options = group_options(log_);
    options.on_stuck = [this](const Error& error) { call(end_process_, "lockstep's end", error.message); };
    options.set_environment = [this](const std::string& name, const std::string& value) {
      call(set_variable_, "a variable of the environment", name, value);
    };
    return communicator ? Group::mpi(MpiHandle{*communicator}, std::move(options)) : Group::mpi(std::move(options));
  }));
}

Ranks::~Ranks() {
  without_gil([this] { group_.reset(); });
}

std::string Ranks::broadcast(const std::string& text) {
  return value_of(without_gil([&] { return group_->broadcast(text); }));
}

void Ranks::serve(const std::string& directory, const ModelOptions& model_options, const EngineOptions& options) {
  const auto served = [&]() -> Result<void> {
    LOCKSTEP_TRY(const Model model, Model::open(directory, model_options));
    LOCKSTEP_TRY(const auto engine, Engine::open(*group_, model, options));
    return engine->serve();
  };
  value_of(without_gil(served));
}

void Ranks::leave() {
  const std::unique_ptr<Group> group = std::move(group_);
  value_of(without_gil([&] { return group->leave(); }));
}

}  // namespace lockstep::python

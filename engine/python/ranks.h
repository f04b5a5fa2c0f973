// The ranks that mpirun or srun has started, of which this process is one.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>

#include "lockstep/engine.h"

namespace lockstep::python {

namespace nb = nanobind;

/// What log lines and waits of a group are in Python. `log(rank, level, line)` is called on any thread.
GroupOptions group_options(nb::handle log);

/// One model at a time is open on them. Its methods are called with the GIL and release it while they wait; the thread
/// that joined calls all of them.
class Ranks {
 public:
  /// `communicator`: of MPI, as an integer of Fortran; none: all ranks of the launcher. `set_variable(name, value)`
  /// sets a variable of the environment. `end_process(message)` is called when MPI does not return, on any thread.
  /// Raises the error of a failed start. @collective @blocking
  Ranks(std::optional<int> communicator, nb::object log, nb::object set_variable, nb::object end_process);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  /// Rank 0's text, on every rank. @collective @blocking
  std::string broadcast(const std::string& text);
  /// Opens the model and runs this rank's steps until rank 0 closes it. On every rank except rank 0.
  /// @collective @blocking
  void serve(const std::string& directory, const ModelOptions& model_options, const EngineOptions& options);
  /// After it there is no group. @collective @blocking
  void leave();
  /// Gives the group up without a destructor, in a forked child.
  void disown() { static_cast<void>(group_.release()); }

  Group& group() const { return *group_; }

 private:
  const nb::object log_, set_variable_, end_process_;
  std::unique_ptr<Group> group_;
};

}  // namespace lockstep::python

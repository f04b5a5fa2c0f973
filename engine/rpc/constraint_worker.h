// Compiles requests' constraints on a few separate threads, so that a slow one delays no other request.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/model.h"
#include "runtime/constraint/constraint.h"

namespace lockstep::rpc {

/// Neither copied nor moved. Borrows the model. Starts a thread for a constraint that would have to wait, up to a few.
class ConstraintWorker {
 public:
  using Compiled = Result<std::shared_ptr<const constraint::Constraint>>;
  using Done = std::function<void(const Compiled&)>;

  /// `program`: lockstep-constraint, which compiles with limits of time and memory; empty: this process does, without.
  ConstraintWorker(const Model& model, std::filesystem::path program) : model_(model), program_(std::move(program)) {}
  /// Drops the constraints that are not compiled yet.
  ~ConstraintWorker();
  ConstraintWorker(const ConstraintWorker&) = delete;
  ConstraintWorker& operator=(const ConstraintWorker&) = delete;

  /// Calls `done` on a thread of the worker, or at once if too many constraints wait. Equal ones are compiled once.
  /// Thread-safe.
  void compile(std::string json, Done done);

 private:
  struct Job {
    std::string json;
    std::vector<Done> done;
    bool has_begun = false;
  };

  void run();
  Compiled compiled(const std::string& json);
  Result<constraint::Compiler*> compiler();

  const Model& model_;
  const std::filesystem::path program_;
  std::mutex compiler_mutex_;  // guards the next
  std::unique_ptr<constraint::Compiler> compiler_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::list<Job> jobs_;  // those that wait, and those that are being compiled
  bool is_closed_ = false;
  size_t idle_ = 0;  // threads
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::rpc

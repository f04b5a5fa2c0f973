// Compiles requests' constraints on a thread of its own, so that a slow one delays no other request's tokens.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/model.h"
#include "runtime/constraint/constraint.h"

namespace lockstep::rpc {

/// Neither copied nor moved. Borrows the model. Starts its thread with the first constraint.
class ConstraintWorker {
 public:
  using Compiled = Result<std::shared_ptr<const constraint::Constraint>>;
  using Done = std::function<void(Compiled)>;

  explicit ConstraintWorker(const Model& model) : model_(model) {}
  /// Drops the constraints that are not compiled yet.
  ~ConstraintWorker();
  ConstraintWorker(const ConstraintWorker&) = delete;
  ConstraintWorker& operator=(const ConstraintWorker&) = delete;

  /// Calls `done` on the worker's thread. Constraints are compiled in their order. Thread-safe.
  void compile(std::string json, Done done);

 private:
  struct Job {
    std::string json;
    Done done;
  };

  void run();
  Compiled compiled(const std::string& json);

  const Model& model_;
  std::unique_ptr<constraint::Compiler> compiler_;  // on the thread
  std::mutex mutex_;                                // guards the rest
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool is_closed_ = false;
  std::thread thread_;
};

}  // namespace lockstep::rpc

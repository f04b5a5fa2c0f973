#include "engine/rpc/constraint_worker.h"

#include <utility>

namespace lockstep::rpc {

ConstraintWorker::~ConstraintWorker() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void ConstraintWorker::compile(std::string json, Done done) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back({std::move(json), std::move(done)});
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void ConstraintWorker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_closed_ || !jobs_.empty(); });
    if (is_closed_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job.done(compiled(job.json));
    lock.lock();
  }
}

ConstraintWorker::Compiled ConstraintWorker::compiled(const std::string& json) {
  if (compiler_ == nullptr) {
    LOCKSTEP_TRY(const text::Tokenizer* const tokenizer, model_.tokenizer());
    if (tokenizer == nullptr) {
      return Error{ErrorKind::kUnsupported,
                   "[engine/rpc] cannot constrain an answer: found a model without tokenizer.json, expected one, since "
                   "constraints are about text; omit the constraint"};
    }
    LOCKSTEP_TRY(compiler_, constraint::make_compiler(*tokenizer, model_.spec().vocabulary));
  }
  return compiler_->compile(json);
}

}  // namespace lockstep::rpc

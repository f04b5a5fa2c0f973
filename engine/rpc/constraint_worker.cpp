#include "engine/rpc/constraint_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/constraint/isolated_compiler.h"

namespace lockstep::rpc {
namespace {

constexpr size_t kMostThreads = 4;
constexpr size_t kMostJobs = 256;

Error too_many() {
  return {ErrorKind::kResourceExhausted,
          fmt::format("[engine/rpc] cannot compile a constraint: found {} that wait, expected fewer; send the request "
                      "later",
                      kMostJobs)};
}

}  // namespace

ConstraintWorker::~ConstraintWorker() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }
  {
    const std::lock_guard lock(compiler_mutex_);
    if (compiler_ != nullptr) compiler_->stop();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ConstraintWorker::compile(std::string json, Done done) {
  std::unique_lock lock(mutex_);
  const auto same = std::ranges::find(jobs_, json, &Job::json);
  if (same != jobs_.end()) return same->done.push_back(std::move(done));
  if (jobs_.size() >= kMostJobs) {
    lock.unlock();
    return done(too_many());
  }
  jobs_.push_back({std::move(json), {std::move(done)}});
  const auto waiting = static_cast<size_t>(std::ranges::count(jobs_, false, &Job::has_begun));
  if (waiting > idle_ && threads_.size() < kMostThreads) threads_.emplace_back([this] { run(); });
  changed_.notify_one();
}

void ConstraintWorker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto next = [this] { return std::ranges::find(jobs_, false, &Job::has_begun); };
    ++idle_;
    changed_.wait(lock, [&] { return is_closed_ || next() != jobs_.end(); });
    --idle_;
    if (is_closed_) return;
    const auto job = next();
    job->has_begun = true;
    lock.unlock();
    const Compiled result = compiled(job->json);
    lock.lock();
    const std::vector<Done> done = std::move(job->done);
    jobs_.erase(job);
    lock.unlock();
    for (const Done& call : done) call(result);
    lock.lock();
  }
}

Result<constraint::Compiler*> ConstraintWorker::compiler() {
  const std::lock_guard lock(compiler_mutex_);
  if (compiler_ != nullptr) return compiler_.get();
  LOCKSTEP_TRY(const text::Tokenizer* const tokenizer, model_.tokenizer());
  if (tokenizer == nullptr) {
    return Error{ErrorKind::kUnsupported,
                 "[engine/rpc] cannot constrain an answer: found a model without tokenizer.json, expected one, since "
                 "constraints are about text; omit the constraint"};
  }
  const int64_t vocabulary = model_.spec().vocabulary;
  LOCKSTEP_TRY(compiler_, program_.empty() ? constraint::make_compiler(*tokenizer, vocabulary)
                                           : constraint::make_isolated_compiler(*tokenizer, vocabulary, program_));
  return compiler_.get();
}

ConstraintWorker::Compiled ConstraintWorker::compiled(const std::string& json) {
  LOCKSTEP_TRY(constraint::Compiler* const compiler, this->compiler());
  return compiler->compile(json);
}

}  // namespace lockstep::rpc

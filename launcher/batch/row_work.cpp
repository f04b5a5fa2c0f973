#include "launcher/batch/row_work.h"

#include <utility>

#include "launcher/batch/result_lines.h"
#include "launcher/generate/generation.h"

namespace lockstep::launcher {

Result<RowWork> RowWork::open(const GenerateCommand& command, const Model& model) {
  LOCKSTEP_TRY(JobsFile jobs,
               JobsFile::open(*command.prompts.jobs_file, command.chat ? ChatRows::kYes : ChatRows::kNo));
  LOCKSTEP_TRY(RowRequests requests, RowRequests::make(command, model, jobs.has_text()));
  return RowWork(command, std::move(jobs), std::move(requests));
}

Result<EngineOptions> RowWork::options(const Model& model, int64_t capacity, uint64_t rows) const {
  EngineOptions options = engine_options(*command_, requests_.config());
  options.capacity = capacity;
  Sizing sizing(model, options);
  const Prompt any{.ids = {0}};
  for (uint64_t row = 0; row < rows; ++row) LOCKSTEP_TRY_VOID(sizing.add(any, requests_.config()));
  return sizing.options();
}

/// Takes the row's answers, on the engine's delivery thread.
void RowWork::take(size_t row, RequestHandle& handle, RowSource& source) {
  journal::RowResult result{.row = row, .answers = {}, .error = {}};
  const auto answers = handle.wait();  // it is done
  if (!answers.has_value()) return refuse(row, answers.error(), source);
  for (const Answer& answer : answers.value()) result.answers.push_back(to_row_answer(answer));
  source.put(std::move(result));
}

/// The cause is decided at the end: the row is invalid, or the group has failed.
void RowWork::refuse(size_t row, const Error& error, RowSource& source) {
  {
    const std::lock_guard lock(*mutex_);
    refused_.push_back({.row = row, .answers = {}, .error = error.message});
  }
  source.hold(row);
}

Result<void> RowWork::feed_row(size_t row, Engine& engine, RowSource& source) {
  LOCKSTEP_TRY(const JobRow job, jobs_.read(row));
  auto request = requests_.prepare(row, job);
  if (!request.has_value()) {
    source.put({.row = row, .answers = {}, .error = request.error().message});
    return ok();
  }
  Result<RequestHandle> handle = engine.submit(std::move(request).value());
  if (!handle.has_value()) {
    refuse(row, handle.error(), source);
    return ok();
  }
  handle.value().on_done([this, row, own = handle.value(), &source]() mutable { take(row, own, source); });
  return ok();
}

Result<void> RowWork::feed(Group& group, Engine& engine, RowSource& source) {
  while (const std::optional<size_t> row = source.next()) {
    if (group.failure()) return ok();  // the group has the error
    LOCKSTEP_TRY_VOID(feed_row(*row, engine, source));
  }
  return ok();
}

Result<void> RowWork::run(Group& group, Engine& engine, RowSource& source) {
  const Result<void> fed = feed(group, engine, source);
  if (!fed.has_value()) group.fail(fed.error());
  const Result<void> closed = engine.close();
  if (closed.has_value()) {  // the rejected rows are invalid themselves
    for (journal::RowResult& row : refused_) source.put(std::move(row));
  }
  return closed;
}

}  // namespace lockstep::launcher

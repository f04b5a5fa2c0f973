// The rows of a batch job on one group of ranks: from a row to its request, from its answers to its result.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "launcher/batch/jobs_file.h"
#include "launcher/batch/row_requests.h"
#include "launcher/rows/row_source.h"
#include "lockstep/engine.h"

namespace lockstep::launcher {

class RowWork {
 public:
  /// Opens the rows. Command and model are borrowed. Fails as JobsFile::open and RowRequests::make.
  static Result<RowWork> open(const GenerateCommand& command, const Model& model);

  JobsFile& jobs() { return jobs_; }
  RowRequests& requests() { return requests_; }

  /// Engine options for slots of `capacity` tokens, with at most as many slots as `rows` need.
  Result<EngineOptions> options(const Model& model, int64_t capacity, uint64_t rows) const;

  /// Answers the rows of `source`, until it has none, and closes the engine. Fails when the group does. @blocking
  Result<void> run(Group& group, Engine& engine, RowSource& source);

 private:
  RowWork(const GenerateCommand& command, JobsFile jobs, RowRequests requests)
      : command_(&command), jobs_(std::move(jobs)), requests_(std::move(requests)) {}

  Result<void> feed(Group& group, Engine& engine, RowSource& source);
  Result<void> feed_row(size_t row, Engine& engine, RowSource& source);
  void take(size_t row, RequestHandle& handle, RowSource& source);
  void refuse(size_t row, const Error& error, RowSource& source);

  const GenerateCommand* command_;
  JobsFile jobs_;
  RowRequests requests_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // guards the field below
  std::vector<journal::RowResult> refused_;                             // by the engine
};

}  // namespace lockstep::launcher

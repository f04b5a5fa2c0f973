#include "launcher/process/rank_lifecycle.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>

#include "engine/group/host.h"
#include "launcher/process/exit_record.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

double unix_time() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

RankLifecycle::RankLifecycle(int rank, const Clock& clock, const RunOptions& run, Faults faults, Log::Sink sink)
    : rank_(rank),
      host_(group::host_name()),
      run_(run),
      faults_(std::move(faults)),
      log_(std::move(sink)),
      recorder_(clock) {
  if (!run_.exit_record) return;
  std::error_code ignored;  // then the rank's own record cannot be written either, which is reported
  std::filesystem::remove(exit_record_file(*run_.exit_record, rank_), ignored);
}

void RankLifecycle::enter_phase(const char* phase) {
  phase_ = phase;
  faults_.at_phase(phase);
}

void RankLifecycle::begin_step(const actors::ExecutorStatus& status) {
  recorder_.begin_step(status.schedule, status.step);
  faults_.at_step(status);
}

void RankLifecycle::set_running(const group::RunningRank& running) {
  std::lock_guard lock(running_mutex_);
  running_ = running;
  if (running.cancel) has_run_ = true;
}

bool RankLifecycle::is_running() const {
  std::lock_guard lock(running_mutex_);
  return static_cast<bool>(running_.cancel);
}

bool RankLifecycle::cancel() {
  std::lock_guard lock(running_mutex_);
  if (!running_.cancel) return false;
  running_.cancel();
  return true;
}

std::string RankLifecycle::phase() const {
  std::lock_guard lock(running_mutex_);
  return running_.status ? actors::to_string(running_.status()) : phase_.load();
}

std::string RankLifecycle::activity() const {
  const trace::RecordedOperation last = recorder_.last();
  if (last.sequence == 0) return phase();
  return fmt::format("{}, {} {} (operation {})", phase(), last.left ? "after" : "at", last.operation, last.sequence);
}

Error RankLifecycle::settle(Error error) {
  std::lock_guard lock(mutex_);
  if (error_) return *error_;
  if (error.kind == ErrorKind::kPeerLost || error.kind == ErrorKind::kDeadlineExceeded) {
    error.message += fmt::format(" (rank {} on host {} was in {})", rank_, host_, activity());
  }
  error_ = error;
  if (!std::exchange(is_settled_, true)) record(&error);
  dump(error.message);
  return error;
}

Result<void> RankLifecycle::settle_well() {
  std::lock_guard lock(mutex_);
  if (error_) return *error_;
  if (!std::exchange(is_settled_, true)) record(nullptr);
  return ok();
}

void RankLifecycle::record(const Error* error) {
  if (!run_.exit_record) return;
  const trace::RecordedOperation last = recorder_.last();
  ExitRecord record{.code = error != nullptr ? exit_code(error->kind) : 0,
                    .rank = rank_,
                    .host = host_,
                    .phase = phase(),
                    .operation = last.operation,
                    .sequence = last.sequence,
                    .unix_time = unix_time()};
  if (error != nullptr) {
    record.message = error->message;
    record.origin_rank = error->origin_rank;
    if (error->kind == ErrorKind::kPeerLost && error->origin_rank != rank_) record.lost_rank = error->origin_rank;
  }
  if (const auto written = write_exit_record(*run_.exit_record, record); !written.has_value()) {
    log_.error("{}", written.error().message);
  }
}

void RankLifecycle::dump(const std::string& why) const {
  if (!run_.flight_recorder) return;
  const std::string text =
      recorder_.to_json({.rank = rank_, .host = host_, .phase = phase(), .why = why, .unix_time = unix_time()});
  const auto written = write_text_file(*run_.flight_recorder / fmt::format("rank-{}.json", rank_), text);
  if (!written.has_value()) log_.error("{}", written.error().message);
}

void RankLifecycle::end_within(Duration grace) {
  std::lock_guard lock(overdue_mutex_);
  if (overdue_) return;
  overdue_.emplace(grace, [this] {
    const Error error = settle({ErrorKind::kInternal, "[launcher] ended without giving a reason"});
    log_.error("{}", error.message);
    std::_Exit(exit_code(error.kind));
  });
}

void RankLifecycle::report_activity() {
  log_.warning("rank {} on host {} is in {}", rank_, host_, activity());
  dump("asked");
}

}  // namespace lockstep::launcher

#include "launcher/measure/doctor/stage_reporter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "launcher/measure/doctor/stages.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);
constexpr auto kForRank0 = std::chrono::seconds(3);  // time for rank 0 to report first

const Stage& stage_of(int stage) { return stages()[static_cast<size_t>(stage)]; }

std::vector<std::string> stage_names() {
  std::vector<std::string> names;
  for (const Stage& stage : stages()) names.emplace_back(stage.name);
  return names;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

Check expired_check(int stage, const std::vector<std::string>& missing, double seconds) {
  Check check{.name = stage_of(stage).name, .status = CheckStatus::kFailed};
  check.seconds = seconds;
  check.found =
      missing.empty() ? "every rank is in it, and none comes to its end" : fmt::format("{}", fmt::join(missing, "; "));
  check.expected = fmt::format("the end of '{}' on every rank, in less than {:.1f} s", check.name, seconds);
  check.fix = stage == kMpiStage ? "check that every rank was started, that none is stopped (ps), and that the hosts "
                                   "reach each other (firewalls; --interface NAME)"
                                 : "look after the ranks named: is the process stopped or gone (ps, dmesg), does its "
                                   "host's disk or network answer? then start again";
  return check;
}

void skip_rest(DoctorReport& report, const std::string& why) {
  for (const Stage& stage : stages().subspan(report.checks.size())) {
    Check check = skipped_check(why);
    check.name = stage.name;
    report.checks.push_back(std::move(check));
  }
}

StageReporter::StageReporter(const DoctorCommand& command, const Clock& clock, const StageTable& board, int rank,
                             Signs signs)
    : command_(command), clock_(clock), board_(board), rank_(rank), signs_(signs) {
  thread_ = start_deaf_thread([this] { watch(); });
}

StageReporter::~StageReporter() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StageReporter::enter(int stage) {
  std::lock_guard lock(mutex_);
  stage_ = stage;
  entered_ = clock_.now();
}

void StageReporter::leave(const DoctorReport& report) {
  std::lock_guard lock(mutex_);
  stage_ = -1;
  report_ = report;
  if (rank_ == 0) print(to_lines(report.checks.back()));
}

Result<void> StageReporter::close(const DoctorReport& report) {
  std::lock_guard lock(mutex_);
  stage_ = -1;
  if (rank_ != 0) return ok();
  const size_t printed = std::min(report_.checks.size(), report.checks.size());
  print(to_lines(std::span(report.checks).subspan(printed)) + closing_words(report));
  return command_.json ? write_text_file(*command_.json, to_json(report)) : Result<void>(ok());
}

std::optional<Check> StageReporter::why_expired() const {
  if (stage_ < 0) return std::nullopt;
  const TimePoint now = clock_.now();
  const auto deadline = duration_of(command_.stage_deadline_s);
  const auto limit = duration_of(command_.stage_deadline_s * stage_of(stage_).deadlines);
  const auto grace = rank_ == 0 ? Duration::zero() : Duration(kForRank0);
  bool has_ended = now - entered_ > limit + grace;
  const std::vector<RankSign> signs = board_.signs();
  for (const RankSign& sign : signs) {
    const bool is_silent = sign.stage >= 0 && now - sign.heard > deadline && now - entered_ > deadline;
    has_ended = has_ended || (signs_ == Signs::kCarried && rank_ == 0 && stage_ >= kEarlyStages && is_silent);
  }
  if (!has_ended) return std::nullopt;
  // Only rank 0 receives the others' signs; signs of threads are as old as their stage.
  std::vector<std::string> missing;
  if (rank_ == 0) missing = who_is_missing(signs, stage_, stage_names(), signs_ == Signs::kCarried ? now : entered_);
  return expired_check(stage_, missing, to_seconds(now - entered_));
}

void StageReporter::expire(const Check& check) {
  if (rank_ == 0) {
    report_.checks.push_back(check);
    const size_t printed = report_.checks.size() - 1;
    skip_rest(report_, fmt::format("'{}' did not end", check.name));
    print(to_lines(std::span(report_.checks).subspan(printed)) + closing_words(report_));
    if (command_.json) {
      const auto written = write_text_file(*command_.json, to_json(report_));
      if (!written.has_value()) fmt::print(stderr, "lockstep: {}\n", written.error().message);
    }
  } else {
    fmt::print(stderr,
               "lockstep: [doctor] rank {}: '{}' did not end in {:.1f} s, and rank 0 has not ended the job; is "
               "rank 0 stopped, or on a host that this one cannot reach?\n",
               rank_, check.name, check.seconds);
  }
  std::fflush(stderr);
  std::_Exit(exit_code(ErrorKind::kFailedPrecondition));
}

void StageReporter::watch() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    changed_.wait_for(lock, kLook, [this] { return done_; });
    if (done_) return;
    if (const auto check = why_expired()) expire(*check);
  }
}

}  // namespace lockstep::launcher

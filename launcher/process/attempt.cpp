#include "launcher/process/attempt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "runtime/core/error_kinds.h"

namespace lockstep::launcher {
namespace {

constexpr int kLost = 5, kTooLate = 6, kInterrupted = 130, kSignals = 128;

/// Launcher messages about too few slots: Open MPI, MPICH's hydra, srun.
constexpr std::string_view kNoSlots[] = {"not enough slots", "More processors requested than permitted",
                                         "Requested node configuration is not available"};

/// What MPICH's hydra prints where a rank was killed. Its exit code is the signal's number, and it ends the others,
/// which may not have written a record.
constexpr std::string_view kKilled[] = {"YOUR APPLICATION TERMINATED WITH THE EXIT STRING"};

/// The first record whose code is one of `codes`; null when there is none.
const ExitRecord* find_code(const std::vector<ExitRecord>& records, std::initializer_list<int> codes) {
  for (const int code : codes) {
    const auto found = std::ranges::find(records, code, &ExitRecord::code);
    if (found != records.end()) return &*found;
  }
  return nullptr;
}

/// The ranks that other ranks report as lost, or else the ranks without a record if others have one.
std::set<int> lost_ranks(const std::vector<ExitRecord>& records, std::optional<int> ranks) {
  std::set<int> named, silent;
  for (const ExitRecord& record : records) {
    if (record.code == kLost && record.lost_rank) named.insert(*record.lost_rank);
  }
  if (!named.empty() || records.empty() || !ranks) return named;
  for (int rank = 0; rank < *ranks; ++rank) silent.insert(rank);
  for (const ExitRecord& record : records) silent.erase(record.rank);
  return silent;
}

bool speaks_of(std::span<const std::string_view> texts, const process::ChildOutcome& child) {
  return std::ranges::any_of(texts, [&](std::string_view words) {
    return child.errors.find(words) != std::string::npos || child.output.find(words) != std::string::npos;
  });
}

/// Whether the ranks have done their work. A launcher that keeps ranks going after a loss may end with 0 nevertheless.
bool is_done(const process::ChildOutcome& outcome, WatchedChild child, const std::vector<ExitRecord>& records) {
  if (!outcome.succeeded()) return false;
  if (child == WatchedChild::kRankZero || records.empty()) return true;
  const auto first = std::ranges::find(records, 0, &ExitRecord::rank);
  return first != records.end() && first->code == 0;
}

/// The record that decides how the attempt ended; null if there is none.
const ExitRecord* deciding_record(const std::vector<ExitRecord>& records, bool all_spoke) {
  if (const ExitRecord* own = find_code(records, {2, 3, 4, 7, 1})) return own;
  if (const ExitRecord* lost = find_code(records, {kLost, kTooLate})) return lost;
  // A launcher also ends the survivors of a loss by a signal.
  return all_spoke ? find_code(records, {kInterrupted}) : nullptr;
}

}  // namespace

ErrorKind kind_of(const AttemptEnd& end) { return error_kind_of_exit(end.code).value_or(ErrorKind::kPeerLost); }

EndCause cause_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kPeerLost:
    case ErrorKind::kDeadlineExceeded: return EndCause::kLost;
    case ErrorKind::kCancelled: return EndCause::kInterrupted;
    default: return EndCause::kOwn;
  }
}

EndCause cause_of(const AttemptEnd& end) {
  if (end.code == 0) return EndCause::kDone;
  return end.started ? cause_of(kind_of(end)) : EndCause::kNotStarted;
}

AttemptEnd judge_attempt(const process::ChildOutcome& outcome, WatchedChild child,
                         const std::vector<ExitRecord>& records, std::optional<int> ranks) {
  AttemptEnd end{.message = to_string(outcome)};
  if (is_done(outcome, child, records)) return end;
  const bool all_spoke = ranks && std::ssize(records) >= *ranks;
  end.lost_ranks = lost_ranks(records, ranks);
  if (child == WatchedChild::kRankZero && !outcome.code && end.lost_ranks.empty()) end.lost_ranks = {0};
  if (const ExitRecord* record = deciding_record(records, all_spoke)) {
    end.code = record->code;
    end.message = record->message;
    return end;
  }
  end.code = outcome.shell_code();
  if (!records.empty()) {  // some ranks ended in order, others without a record
    if (!end.lost_ranks.empty() || end.code == 0) end.code = kLost;
    if (outcome.succeeded()) end.message += " of the launcher, without a record of rank 0's success";
    return end;
  }
  if (speaks_of(kKilled, outcome)) {
    end.code = kLost;
    return end;
  }
  end.started = child == WatchedChild::kRankZero || end.code >= kSignals;
  end.lacks_slots = !end.started && speaks_of(kNoSlots, outcome);
  return end;
}

}  // namespace lockstep::launcher

#include "transport/mpi/duplication.h"

#include <sched.h>

namespace lockstep::transport::mpi {
namespace {

constexpr device::OperationMark kOpening{.operation = "opening a communicator"};

}  // namespace

Duplication::Duplication(Library& library, Comm parent, const WaitOptions& wait)
    : library_(library),
      parent_(parent),
      rank_(library.rank_in(parent)),
      patience_(wait, wait_stages(/*crowded=*/true)),  // it is not known yet which ranks share cores
      requests_(library.new_requests()) {}

bool Duplication::poll() {
  const Result<bool> looked = look();
  if (looked.has_value()) return looked.value();
  error_ = looked.error();
  return true;
}

Result<bool> Duplication::look() {
  if (!is_begun_) {
    is_begun_ = true;
    LOCKSTEP_TRY_VOID(check(library_, requests_->duplicate(parent_), rank_, kOpening.operation));
  }
  const Requests::Look found = requests_->test();
  LOCKSTEP_TRY_VOID(check(library_, found.code, rank_, kOpening.operation));
  if (found.is_over) {
    LOCKSTEP_TRY_VOID(check(library_, library_.return_errors(requests_->duplicated()), rank_, kOpening.operation));
    return true;
  }
  switch (patience_.after_failed_look()) {
    case Patience::Verdict::kLookAgain: return false;
    case Patience::Verdict::kSleep: sched_yield(); return false;  // MPI makes progress only inside calls
    case Patience::Verdict::kAborted: return patience_.abort_reason();
    case Patience::Verdict::kExpired: break;
  }
  return expired_error({.component = "transport/mpi",
                        .rank = rank_,
                        .operation = kOpening,
                        .missing = {},
                        .deadline = patience_.deadline()});
}

Result<Comm> Duplication::result() const {
  if (error_) return *error_;
  return requests_->duplicated();
}

}  // namespace lockstep::transport::mpi

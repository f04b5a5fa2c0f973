// The messages between the actors of a session. Private to this folder, which hides CAF.
//
//   shard r                               coordinator (rank 0)                      client, executor of rank 0
//     │ hello r, size, me ───────────────►│                                             │
//     │                                   │◄─────────────── begin limits, submit, finish │
//     │◄──────────── schedule k, k+1 ─────│                                             │
//     │ done r, k ───────────────────────►│◄───────────────────── results (schedule, step …)
//     │ failed r, error ─────────────────►│  the first failure, loss or cancellation closes the session,
//     │◄──────────────────── close error? │  and so does the end of the last schedule
//     │ closed r ────────────────────────►│  all closed or lost: rank 0 may leave
//
// All messages are one-way (`reacts_to`); no actor waits for a reply.
#pragma once

#include <caf/all.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/executor.h"
#include "actors/planner.h"
#include "actors/request.h"
#include "actors/schedule.h"
#include "runtime/core/field_list.h"
#include "runtime/core/result.h"

namespace lockstep::actors {

/// `Error` as a message, because CAF cannot send `std::optional`.
struct WireError {
  int32_t kind = 0;
  std::string message;
  int32_t origin_rank = -1;  // −1: unknown
};
LOCKSTEP_FIELDS(WireError, kind, message, origin_rank);

inline WireError to_wire(const Error& error) {
  return {static_cast<int32_t>(error.kind), error.message, error.origin_rank.value_or(-1)};
}

inline Error from_wire(const WireError& wire) {
  const auto origin = wire.origin_rank < 0 ? std::nullopt : std::optional<int>(wire.origin_rank);
  return {static_cast<ErrorKind>(wire.kind), wire.message, origin};
}

/// The end of a session: success, or the error that all ranks report.
struct Closing {
  bool failed = false;
  WireError error;
};
LOCKSTEP_FIELDS(Closing, failed, error);

inline std::optional<Error> error_of(const Closing& closing) {
  return closing.failed ? std::optional(from_wire(closing.error)) : std::nullopt;
}

/// Sent only inside rank 0's process, as is `Released`.
struct Submission {
  std::vector<Request> requests;
  Sink* sink = nullptr;
};

/// Of one or more steps, in their order.
struct Released {
  std::vector<StepResult> steps;
};

/// CAF reads and writes these values and their members by their lists of fields.
template <class Inspector, HasFields Value>
typename Inspector::result_type inspect(Inspector& f, Value& x) {
  return std::apply([&f](const auto&... fields) { return f(fields.value...); }, fields_of(x));
}

using hello_atom = caf::atom_constant<caf::atom("hello")>;
using schedule_atom = caf::atom_constant<caf::atom("schedule")>;
using done_atom = caf::atom_constant<caf::atom("done")>;
using failed_atom = caf::atom_constant<caf::atom("failed")>;
using close_atom = caf::atom_constant<caf::atom("close")>;
using closed_atom = caf::atom_constant<caf::atom("closed")>;
using begin_atom = caf::atom_constant<caf::atom("begin")>;
using submit_atom = caf::atom_constant<caf::atom("submit")>;
using stop_atom = caf::atom_constant<caf::atom("stop")>;
using finish_atom = caf::atom_constant<caf::atom("finish")>;
using results_atom = caf::atom_constant<caf::atom("results")>;
using expire_atom = caf::atom_constant<caf::atom("expire")>;
using late_atom = caf::atom_constant<caf::atom("late")>;
using quit_atom = caf::atom_constant<caf::atom("quit")>;

/// Messages from the coordinator to a shard.
using ShardHandle = caf::typed_actor<caf::reacts_to<schedule_atom, Schedule>, caf::reacts_to<close_atom, Closing>>;

/// … and from the shard's own process.
using LocalShard = ShardHandle::extend<caf::reacts_to<done_atom, ScheduleDone>, caf::reacts_to<failed_atom, WireError>,
                                       caf::reacts_to<quit_atom>>;

/// Messages from a shard to the coordinator; the first number is its rank.
using CoordinatorHandle =
    caf::typed_actor<caf::reacts_to<hello_atom, int32_t, int32_t, ShardHandle>,
                     caf::reacts_to<done_atom, int32_t, ScheduleDone>, caf::reacts_to<failed_atom, int32_t, WireError>,
                     caf::reacts_to<closed_atom, int32_t>>;

/// … and from rank 0's own process.
using LocalCoordinator =
    CoordinatorHandle::extend<caf::reacts_to<begin_atom, PlannerLimits>, caf::reacts_to<submit_atom, Submission>,
                              caf::reacts_to<stop_atom, int64_t>, caf::reacts_to<finish_atom>,
                              caf::reacts_to<results_atom, Released>, caf::reacts_to<late_atom>,
                              caf::reacts_to<expire_atom, int64_t>, caf::reacts_to<quit_atom>>;

}  // namespace lockstep::actors

namespace lockstep {
template <class Inspector, class Tag, class Rep>
typename Inspector::result_type inspect(Inspector& f, StrongId<Tag, Rep>& x) {
  return f(x.value);
}
}  // namespace lockstep

// CAF finds `inspect` in the namespace of the values.
namespace lockstep::sampling {
using actors::inspect;
}
namespace lockstep::shards {
using actors::inspect;
}

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(lockstep::actors::Submission)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(lockstep::actors::Released)

CAF_BEGIN_TYPE_ID_BLOCK(lockstep, first_custom_type_id)
CAF_ADD_TYPE_ID(lockstep, (lockstep::actors::WireError))
CAF_ADD_TYPE_ID(lockstep, (lockstep::actors::Closing))
CAF_ADD_TYPE_ID(lockstep, (lockstep::actors::Schedule))
CAF_ADD_TYPE_ID(lockstep, (lockstep::actors::ScheduleDone))
CAF_ADD_TYPE_ID(lockstep, (lockstep::actors::PlannerLimits))
CAF_ADD_TYPE_ID(lockstep, (lockstep::actors::ShardHandle))
CAF_ADD_TYPE_ID(lockstep, (lockstep::actors::CoordinatorHandle))
CAF_END_TYPE_ID_BLOCK(lockstep)

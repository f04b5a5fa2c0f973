// Work of rank 0 that may take longer than the limit of a wait between ranks: output to a slow reader, other programs.
//
//   rank 0   thread: work ……………………………………………………………………………… done
//            look ── "" ──► look ── "" ──► … ──► look ── "over" ──►            a step is far shorter than any limit
//   rank r           "" ──►         "" ──► … ──►         "over" ──►
#pragma once

#include <functional>

#include "lockstep/group.h"
#include "runtime/core/clock.h"
#include "runtime/core/result.h"
#include "transport/bootstrap.h"

namespace lockstep::launcher {

/// Waits on every rank until rank 0 has seen what it waits for; `limit` is the same on every rank. `look`, called on
/// rank 0 alone, waits at most its argument and returns whether it has seen it. Returns false when `limit` has passed
/// before. Fails when a rank is lost. @collective @blocking
Result<bool> wait_for_rank_0(transport::Bootstrap& bootstrap, Duration limit,
                             const std::function<bool(Duration)>& look);

/// Runs `work` on rank 0, however long it takes, and shares its outcome: fails on every rank as `work` does, or when a
/// rank is lost meanwhile. With several processes, `work` runs on a thread, which is waited for in any case.
/// @collective @blocking
Result<void> do_on_rank_0(Group& group, const std::function<Result<void>()>& work);

}  // namespace lockstep::launcher

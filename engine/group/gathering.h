// Collection of the ranks' results on rank 0 after a run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/trace/timeline.h"
#include "transport/bootstrap.h"

namespace lockstep::group {

/// Default size of one exchange in bytes: no rank holds more than this per other rank at a time.
inline constexpr size_t kGatherChunk = size_t{1} << 20;

/// Returns every rank's bytes, by rank, on rank 0; nothing elsewhere. @collective @blocking
Result<std::vector<std::string>> gather(transport::Bootstrap& bootstrap, std::string_view mine,
                                        size_t chunk = kGatherChunk);

/// Returns every rank's timeline on rank 0's clock, by rank, on rank 0; nothing elsewhere. @collective @blocking
Result<std::vector<trace::RankTimeline>> gather_timelines(transport::Bootstrap& bootstrap,
                                                          const trace::RankTimeline& mine);

/// The times at which this rank entered and left each of a few exchanges. @collective @blocking
Result<std::vector<trace::Ping>> ping(transport::Bootstrap& bootstrap, const Clock& clock);

}  // namespace lockstep::group

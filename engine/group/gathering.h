// What ranks send to rank 0 after a run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/trace/timeline.h"
#include "transport/bootstrap.h"

namespace lockstep::group {

/// Bytes of one exchange, by default: no rank holds more than this from each other one at a time.
inline constexpr size_t kGatherChunk = size_t{1} << 20;

/// Every rank's bytes, by rank, on rank 0; nothing elsewhere. @collective @blocking
Result<std::vector<std::string>> gather(transport::Bootstrap& bootstrap, std::string_view mine,
                                        size_t chunk = kGatherChunk);

/// Every rank's timeline on the clock of rank 0, by rank, on rank 0; nothing elsewhere. @collective @blocking
Result<std::vector<trace::RankTimeline>> gather_timelines(transport::Bootstrap& bootstrap,
                                                          const trace::RankTimeline& mine);

/// When this rank entered and left each of a few exchanges. @collective @blocking
Result<std::vector<trace::Ping>> ping(transport::Bootstrap& bootstrap, const Clock& clock);

}  // namespace lockstep::group

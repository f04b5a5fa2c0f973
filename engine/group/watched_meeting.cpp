#include "engine/group/watched_meeting.h"

#include "engine/group/agreement.h"

namespace lockstep::group {

Result<void> WatchedMeeting::agree(transport::Bootstrap& bootstrap) {
  const Log& log = group_.log(group_.first_rank());
  LOCKSTEP_TRY(plane_, find_control_plane(group_.options().network, bootstrap, log));
  LOCKSTEP_TRY_VOID(watch_.open(bootstrap, plane_));
  return transport::agree(bootstrap, "the program", statement_of_program());
}

}  // namespace lockstep::group

// Descendants whose parents have died: this process adopts them instead of init, ends and reaps them.
//
//   this process ─► child ─► grandchild          this process ─► grandchild
//                     ╳ killed                                      └─ end_orphans
#pragma once

#include "runtime/core/clock.h"

namespace lockstep::process {

/// From now on, descendants whose parents die become children of this process. Of no effect on a system without the
/// possibility (prctl).
void adopt_orphans();

/// Reaps every child of this process that no ChildProcess waits for; those that live longer than `grace` are killed.
/// Returns whether none is left within the limit. For a process that starts children as ChildProcess only. @blocking
bool end_orphans(Duration grace, Duration limit);

}  // namespace lockstep::process

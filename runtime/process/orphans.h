// Descendants whose parents have died: this process adopts them instead of init, ends and reaps them.
//
//   this process ─► child ─► grandchild          this process ─► grandchild
//                     ╳ killed                                      └─ end_children
#pragma once

#include "runtime/core/clock.h"

namespace lockstep::process {

/// From now on, descendants whose parents die become children of this process. Of no effect on a system without the
/// possibility (prctl).
void adopt_orphans();

/// Reaps every child of this process; those that live longer than `grace` are killed. Returns whether none is left
/// within the limit. Not for a process with other children. @blocking
bool end_children(Duration grace, Duration limit);

}  // namespace lockstep::process

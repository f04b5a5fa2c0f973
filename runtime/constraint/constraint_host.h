// The host of constraints: the part of the program lockstep-constraint (isolated_compiler.h has the picture).
#pragma once

namespace lockstep::constraint {

/// Serves the compiler at the other end of `socket`, until it is closed. `setup` is a file with the vocabulary. Call it
/// in a process with one thread: it forks. @blocking
void host_constraints(int socket, int setup);

}  // namespace lockstep::constraint

// The processor's unit for products of tiles (Intel AMX), whose registers a process must ask the kernel for.
#pragma once

namespace lockstep {

/// Whether this machine multiplies tiles of bfloat16 and of bytes, and this process may. Asks Linux for the registers
/// the first time (arch_prctl(2), ARCH_REQ_XCOMP_PERM), for all threads.
bool has_tile_unit();

}  // namespace lockstep

// Detection of Intel AMX. A process must request its registers from the kernel.
#pragma once

namespace lockstep {

/// Whether this machine multiplies tiles of bfloat16 and int8 and this process has permission. The first call requests
/// it from Linux for all threads (arch_prctl(2), ARCH_REQ_XCOMP_PERM).
bool has_tile_unit();

}  // namespace lockstep

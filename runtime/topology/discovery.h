// Discovery of machines through hwloc, the only place that uses it.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/core/result.h"
#include "runtime/topology/machine.h"

namespace lockstep::topology {

/// Reading the PCI devices costs some 20 ms, the rest some 2.
enum class Devices { kNone, kPci };

/// This machine, without cores that the process's container may never use. hwloc's own variables (HWLOC_XMLFILE)
/// replace it by a described one. Fails with `kUnavailable`. @blocking
Result<Machine> read_machine(Devices devices);

/// A machine in hwloc's synthetic form, such as "package:2 numa:1 core:4 pu:2"; it has no devices. Fails with
/// `kInvalidArgument`.
Result<Machine> machine_from_synthetic(const std::string& description);

/// A machine that `lstopo FILE.xml` wrote. Fails with `kInvalidArgument`.
Result<Machine> machine_from_xml(const std::filesystem::path& file);

}  // namespace lockstep::topology

// Options for the processes of a command: connection, deadlines, records.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher {

/// How ranks start: by mpirun or srun, as processes that lockstep starts itself, or as threads.
enum class Launch { kMpi, kProcesses, kThreads };
enum class Detection { kOn, kOff };

/// Which signal ends a rank that runs steps:
///   kAny        SIGINT or SIGTERM
///   kInterrupt  SIGINT; a launcher sends SIGTERM to a server and to its ranks, which leave the end to the server
///   kLeave      as kAny on rank 0; on others SIGTERM says that their host is to be taken away: they tell rank 0
enum class EndSignal { kAny, kInterrupt, kLeave };

/// Whether a progress line is drawn: only on a terminal, or also where a launcher forwards stderr.
enum class ShowProgress { kOnTerminal, kAlways, kNever };

struct RunOptions {
  Launch launch = Launch::kMpi;
  std::optional<std::string> interface;  // of the control plane between hosts: name, address or subnet
  double deadline_s = 60.0;
  double start_deadline_s = 30.0;  // until all ranks have met
  double silence_s = 8.0;          // until a frozen rank counts as lost; 0: never
  Detection peer_detection = Detection::kOn;
  std::optional<std::filesystem::path> exit_record;
  bool makes_exit_record = false;  // makes that folder where there is none
  std::optional<std::filesystem::path> flight_recorder;
  ShowProgress progress = ShowProgress::kOnTerminal;
  std::vector<std::string> faults;  // fault.h reads them
  std::optional<int> first_rank;    // of several groups on this host: the number of this one's first, in the log
};

}  // namespace lockstep::launcher

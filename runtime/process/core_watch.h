// What other work took from this process: cores that other programs had, and time that a hypervisor took.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "runtime/core/clock.h"

namespace lockstep::process {

/// Taken from a process within `time`. Zero where the system does not count it.
struct CoreLosses {
  Duration time{};
  Duration waited{};        // of the thread that waited longest for a core although it had work
  int64_t preemptions = 0;  // times that threads lost a core to others (getrusage(2), ru_nivcsw)
  Duration stolen{};        // by the hypervisor, a mean over the machine's cores (steal of /proc/stat, proc(5))
};

/// Counts from its creation. Threads that begin later count from their beginning, those that have ended do not count.
/// Thread-safe.
class CoreWatch {
 public:
  CoreWatch();

  /// Until now. @blocking (files of /proc)
  CoreLosses losses() const;

 private:
  struct Reading {
    TimePoint at;
    std::map<int, Duration> waits;  // by thread: the second number of /proc/self/task/TID/schedstat
    int64_t preemptions = 0;
    Duration stolen{};
  };
  static Reading read();

  const Reading begin_;
};

/// The share of the last ten seconds in which some work of this machine waited for a core, from 0 to 1: avg10 of "some"
/// in /proc/pressure/cpu. None where the kernel does not count it.
std::optional<double> core_pressure();

/// Of the text of that file.
std::optional<double> parse_core_pressure(std::string_view text);

/// The mean time stolen from a core, of the text of /proc/stat; `ticks` of its clock are a second.
Duration parse_stolen(std::string_view text, int64_t ticks);

}  // namespace lockstep::process

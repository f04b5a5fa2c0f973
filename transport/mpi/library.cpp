#include "transport/mpi/library.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::transport::mpi {

std::string_view to_string(Family family) { return family == Family::kOpenMpi ? "Open MPI" : "MPICH"; }

std::string_view to_string(ThreadLevel level) {
  switch (level) {
    case ThreadLevel::kSingle: return "single";
    case ThreadLevel::kFunneled: return "funneled";
    case ThreadLevel::kSerialized: return "serialized";
    case ThreadLevel::kMultiple: return "multiple";
  }
  return "unknown";
}

std::string name_of(std::string_view text) {
  // "Open MPI v4.1.4, package: …", "MPICH Version:\t4.0.2\nMPICH Release date: …"
  std::string name(text.substr(0, text.find_first_of(",\n")));
  const size_t version = name.find_first_of("0123456789");
  const size_t word_end = name.find_first_of(":\t");
  if (word_end < version && version != std::string::npos && name.starts_with("MPICH")) {
    return "MPICH " + name.substr(version);
  }
  if (name.starts_with("Open MPI v")) name.erase(9, 1);
  return name;
}

Error mpi_error(const Library& library, Code code, int rank, std::string_view what) {
  const Library::Failure failure = library.describe(code);
  return {failure.kind,
          fmt::format("[transport/mpi] rank {}: {} failed: found '{}', expected success; {}", rank, what, failure.text,
                      failure.kind == ErrorKind::kFailedPrecondition ? "every rank must run the same steps"
                                                                     : "look at the other ranks, then start again"),
          rank};
}

}  // namespace lockstep::transport::mpi

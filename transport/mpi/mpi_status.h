// The one place where MPI's return codes become errors of ours.
#pragma once

#include <fmt/format.h>
#include <mpi.h>

#include <string_view>

#include "runtime/core/result.h"

namespace lockstep::transport::mpi {

/// What went wrong on `rank` in `what`. A failed exchange that is neither a mismatch between the ranks nor a lack of
/// memory means that a peer or the way to it is gone.
inline Error mpi_error(int code, int rank, std::string_view what) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  int error_class = MPI_ERR_UNKNOWN;
  MPI_Error_string(code, text, &length);
  MPI_Error_class(code, &error_class);
  const bool mismatch = error_class == MPI_ERR_TRUNCATE;
  const ErrorKind kind = mismatch                        ? ErrorKind::kFailedPrecondition
                         : error_class == MPI_ERR_NO_MEM ? ErrorKind::kResourceExhausted
                                                         : ErrorKind::kPeerLost;
  return {kind,
          fmt::format("[transport/mpi] rank {}: {} failed: found '{}', expected success; {}", rank, what,
                      std::string_view(text, static_cast<size_t>(length)),
                      mismatch ? "every rank must run the same steps" : "look at the other ranks, then start again"),
          rank};
}

/// Turns the code of an MPI call into a result.
inline Result<void> check(int code, int rank, std::string_view what) {
  if (code == MPI_SUCCESS) return ok();
  return mpi_error(code, rank, what);
}

}  // namespace lockstep::transport::mpi

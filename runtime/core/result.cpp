#include "runtime/core/result.h"

namespace lockstep {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInternal: return "internal";
    case ErrorKind::kInvalidArgument: return "invalid_argument";
    case ErrorKind::kNotFound: return "not_found";
    case ErrorKind::kUnsupported: return "unsupported";
    case ErrorKind::kFailedPrecondition: return "failed_precondition";
    case ErrorKind::kUnavailable: return "unavailable";
    case ErrorKind::kPeerLost: return "peer_lost";
    case ErrorKind::kDeadlineExceeded: return "deadline_exceeded";
    case ErrorKind::kResourceExhausted: return "resource_exhausted";
    case ErrorKind::kCancelled: return "cancelled";
  }
  return "unknown";
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInternal: return 1;
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kNotFound: return 2;
    case ErrorKind::kUnsupported: return 3;
    case ErrorKind::kFailedPrecondition:
    case ErrorKind::kUnavailable: return 4;
    case ErrorKind::kPeerLost: return 5;
    case ErrorKind::kDeadlineExceeded: return 6;
    case ErrorKind::kResourceExhausted: return 7;
    case ErrorKind::kCancelled: return 130;
  }
  return 1;
}

}  // namespace lockstep

// Why an address cannot be listened on. Private to this folder.
#pragma once

#include <string>

namespace lockstep::actors {

/// Tries to listen on any port of the numeric `address`, and stops at once: the system's reason why that fails; empty
/// if it does not.
std::string reason_against_listening(const std::string& address);

}  // namespace lockstep::actors

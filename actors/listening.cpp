#include "actors/listening.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "runtime/core/descriptor.h"

namespace lockstep::actors {

std::string reason_against_listening(const std::string& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(address.c_str(), "0", &hints, &found);
  if (status != 0) return gai_strerror(status);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  const Descriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool listens =
      socket.get() >= 0 && bind(socket.get(), found->ai_addr, found->ai_addrlen) == 0 && listen(socket.get(), 1) == 0;
  return listens ? std::string() : std::strerror(errno);
}

}  // namespace lockstep::actors

#include "transport/nccl/nccl.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/device/rank_exchange.h"
#include "transport/exchange.h"
#include "transport/nccl/nccl_exchange.h"
#include "transport/nccl/nccl_status.h"

namespace lockstep::transport::nccl {
namespace {

using Connected = Result<std::unique_ptr<device::DeviceExchange>>;

/// A rank's part before the members meet.
struct Start {
  std::shared_ptr<const Library> library;
  ncclUniqueId id{};  // of the first member; zeros on the others
};

Result<Start> prepare(const device::DeviceConnection& connection) {
  Start start;
  if (connection.members.empty()) return start;
  LOCKSTEP_TRY(start.library, Library::open(connection.library));
  if (connection.members.front() != connection.communicator.rank()) return start;
  const ncclResult_t result = start.library->functions().GetUniqueId(&start.id);
  if (result != ncclSuccess) return error_of(result, "make the id of a communicator");
  return start;
}

template <typename Value>
Result<void> outcome_of(const Result<Value>& made) {
  return made.has_value() ? Result<void>(ok()) : Result<void>(made.error());
}

Connected connect(const device::DeviceConnection& connection, const WaitOptions& wait) {
  const auto exchange = [&](std::string_view text) { return exchange_over(connection.communicator, text); };
  Result<Start> start = prepare(connection);
  LOCKSTEP_TRY_VOID(device::all_succeeded(exchange, outcome_of(start)));
  const ncclUniqueId& own = start.value().id;
  LOCKSTEP_TRY(const std::vector<std::string> ids, exchange({own.internal, sizeof own.internal}));

  Result<std::unique_ptr<NcclExchange>> made = std::unique_ptr<NcclExchange>();
  if (!connection.members.empty()) {
    ncclUniqueId id;
    std::ranges::copy(ids[static_cast<size_t>(connection.members.front())], id.internal);
    const auto self = std::ranges::find(connection.members, connection.communicator.rank());
    Members members{.ranks = connection.members, .own = static_cast<int>(self - connection.members.begin())};
    made = NcclExchange::start(start.value().library, id, std::move(members), wait);
  }
  LOCKSTEP_TRY_VOID(device::all_succeeded(exchange, outcome_of(made)));
  return std::unique_ptr<device::DeviceExchange>(std::move(made).value());
}

}  // namespace

device::ConnectDevices connect_devices(const WaitOptions& wait) {
  return [wait](const device::DeviceConnection& connection) { return connect(connection, wait); };
}

Result<std::string> describe(const std::filesystem::path& library) {
  LOCKSTEP_TRY(const std::shared_ptr<const Library> opened, Library::open(library));
  return fmt::format("NCCL {}", opened->version_text());
}

}  // namespace lockstep::transport::nccl

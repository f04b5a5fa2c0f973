#include "launcher/rows/row_client.h"

#include <cstring>
#include <utility>

namespace lockstep::launcher {
namespace {

Error no_answer() {
  return {ErrorKind::kPeerLost,
          "[launcher] rows of a job: found no answer of the process that shares them out, expected one within a "
          "second; it has ended, or the connection has"};
}

}  // namespace

Result<std::unique_ptr<RowClient>> RowClient::connect(const RowAddress& address, size_t group) {
  LOCKSTEP_TRY(Descriptor socket, connect_to_rows(address, group));
  std::unique_ptr<RowClient> client(new RowClient(std::move(socket)));
  const uint64_t number = group;
  if (!send_frame(client->socket_, RowMessage::kHello, {&number, 1})) return no_answer();
  const auto frame = receive_frame(client->socket_, kSilence);
  if (!frame || frame->kind != RowMessage::kSetup) return no_answer();
  const std::optional<RowSetup> setup = parse_row_setup(frame->words);
  if (!setup) return no_answer();
  client->setup_ = *setup;
  return client;
}

std::optional<size_t> RowClient::next() {
  while (true) {
    send(RowMessage::kNext, {});
    const auto frame = receive_frame(socket_, kSilence);
    if (frame && frame->kind == RowMessage::kRow && frame->words.size() == 1) return frame->words[0];
    if (frame && frame->kind == RowMessage::kWait) continue;
    if (!frame || frame->kind != RowMessage::kNone) {
      const std::lock_guard lock(mutex_);
      is_lost_ = true;
    }
    return std::nullopt;
  }
}

void RowClient::put(journal::RowResult row) {
  const std::vector<std::byte> bytes = journal::encode(std::span(&row, 1));
  std::vector<uint64_t> words(bytes.size() / sizeof(uint64_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  send(RowMessage::kResult, words);
}

void RowClient::hold(size_t row) {
  const uint64_t number = row;
  send(RowMessage::kHold, {&number, 1});
}

void RowClient::send(RowMessage kind, std::span<const uint64_t> words) {
  const std::lock_guard lock(mutex_);
  is_lost_ = is_lost_ || !send_frame(socket_, kind, words);
}

Result<void> RowClient::status() const {
  const std::lock_guard lock(mutex_);
  if (is_lost_) return no_answer();
  return ok();
}

}  // namespace lockstep::launcher

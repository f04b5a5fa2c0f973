// What the groups of ranks of one batch job say to the process that shares out its rows, over a socket.
//
//   group ── hello: its number ─►                ◄─ setup (RowSetup) ──
//         ── next ─►                             ◄─ row, wait (ask again), none: the end ──
//         ── result, hold ─►
//
// A frame: the kind and the number of 64-bit words that follow, as two 32-bit numbers of the host's order; the words.
// Both ends are the same build (engine/group, agreement).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/descriptor.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Where rows are shared out: a Unix socket, or TCP, where both ends first prove the secret (transport/handshake.h).
struct RowAddress {
  std::filesystem::path socket = {};  // empty: TCP
  std::string host = {};
  uint16_t port = 0;
  std::string secret = {};

  friend bool operator==(const RowAddress&, const RowAddress&) = default;
};

/// An address of TCP, for a process of the same program.
std::string to_text(const RowAddress& address);
RowAddress parse_row_address(const std::string& text);

/// What all groups of a job have to know besides their command.
struct RowSetup {
  int64_t capacity = 1;   // tokens of a slot
  int64_t unix_time = 0;  // of the job's first start
  uint64_t rows = 0;      // that have no answer yet
  uint64_t job = 0;       // fingerprint of what every group reads: the jobs file, the model

  friend bool operator==(const RowSetup&, const RowSetup&) = default;
};

/// The words of a frame with the setup.
std::array<uint64_t, 4> to_words(const RowSetup& setup);
/// None for words that are no setup.
std::optional<RowSetup> parse_row_setup(std::span<const uint64_t> words);

enum class RowMessage : uint32_t { kHello, kSetup, kNext, kRow, kWait, kNone, kResult, kHold };

struct RowFrame {
  RowMessage kind = RowMessage::kNone;
  std::vector<uint64_t> words;

  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words)); }
};

constexpr Duration kSilence = std::chrono::seconds(30);  // an end that takes and answers nothing for as long is gone

/// False when the other end is gone, or takes nothing for `kSilence`. @blocking
bool send_frame(const Descriptor& socket, RowMessage kind, std::span<const uint64_t> words = {});
/// None when the other end is gone, has said nothing for `limit` (none: waits), or says what is no frame. @blocking
std::optional<RowFrame> receive_frame(const Descriptor& socket, std::optional<Duration> limit = {});

/// A socket that listens; of TCP, `address.port` becomes its port. Fails with `kUnavailable`.
Result<Descriptor> listen_for_groups(RowAddress& address);
/// For a group, whose number is at least 1 over TCP. Fails with `kUnavailable`. @blocking
Result<Descriptor> connect_to_rows(const RowAddress& address, size_t group);

}  // namespace lockstep::launcher

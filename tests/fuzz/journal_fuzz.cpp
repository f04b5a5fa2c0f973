// Fuzzes journals: one is refused, or its records are read and end inside it. The first byte selects whether the bytes
// are the file or, framed as a record with correct checksums, a message.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/core/check.h"
#include "runtime/journal/frames.h"
#include "runtime/journal/journal.h"

using namespace lockstep;

namespace {

std::vector<std::byte> framed(std::span<const std::byte> message) {
  std::vector<std::byte> file(journal::magic().begin(), journal::magic().end());
  const auto add = [&](std::span<const std::byte> payload) {
    const std::vector<std::byte> record = journal::frame(static_cast<int64_t>(file.size()), payload);
    file.insert(file.end(), record.begin(), record.end());
  };
  add(journal::encode(journal::JobDescription{.rows = 4, .facts = {}, .notes = {}}));
  if (!message.empty()) add(message);
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  if (data[0] == 'm') file = framed(std::span(file).first(file.size() / 8 * 8));
  const journal::Medium medium{
      .size = static_cast<int64_t>(file.size()), .read = [&](int64_t offset, std::span<std::byte> to) -> Result<void> {
        LOCKSTEP_CHECK(offset >= 0 && offset + std::ssize(to) <= std::ssize(file), offset, to.size(), file.size());
        std::memcpy(to.data(), file.data() + offset, to.size());
        return ok();
      }};
  journal::RowIndex index;
  const auto walked =
      journal::walk_records(medium, [&](int64_t offset, auto payload) { return index.take(offset, payload); });
  if (!walked.has_value()) {
    LOCKSTEP_CHECK(!walked.error().message.empty());
    return 0;
  }
  LOCKSTEP_CHECK(walked.value().end <= medium.size || medium.size < journal::kMagicBytes, walked.value().end);
  LOCKSTEP_CHECK(index.done() == 0 || index.job().has_value(), index.done());
  return 0;
}

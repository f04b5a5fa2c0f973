// The file of a batch job: one JSON object per line and row.
//
//   {"id": "a", "prompt": "Once upon a time"}
//   {"id": "b", "ids": [1, 5, 9], "max_new_tokens": 8}
//   {"messages": [{"role": "user", "content": "Why is the sky blue?"}], "seed": 7, "temperature": 0.7}
//
// Opening reads and checks every line; only the lines' positions, hashes and ids stay in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/text/chat_template.h"

namespace lockstep::launcher {

/// One row of the file: a prompt, ids or messages, and the row's own options.
struct JobRow {
  std::string prompt;  // exactly one of these three is set
  std::vector<int32_t> ids;
  std::vector<text::Message> messages;
  std::optional<int32_t> max_new_tokens;
  std::optional<std::vector<std::string>> stop_strings;
  std::map<std::string, std::string> generation;  // fields of GenerationConfig that a row may set, as JSON text

  friend bool operator==(const JobRow&, const JobRow&) = default;
};

/// A line of a jobs file: its id as JSON text (empty: none) and its row. `place` names the line in messages. Fails with
/// `kInvalidArgument` for a line that is not a row, and for unknown fields, so that a misspelt name is noticed.
struct ParsedLine {
  std::string id;
  JobRow row;
};
Result<ParsedLine> parse_job_line(std::string_view line, const std::string& place);

/// Whether rows may hold messages, and must not hold ids: --chat.
enum class ChatRows { kNo, kYes };

/// An open jobs file. Used by one thread at a time.
class JobsFile {
 public:
  /// Reads and checks all lines; skips blank ones. The id of a row without one is its line number. Fails with
  /// `kNotFound`, and with `kInvalidArgument` naming the line: an invalid row, a repeated id, no rows at all.
  static Result<JobsFile> open(const std::filesystem::path& path, ChatRows chat);

  size_t size() const { return lines_.size(); }
  /// Row `row`. Fails with `kFailedPrecondition` when the file changed since it was opened.
  Result<JobRow> read(size_t row);
  /// The id of `row` as JSON text.
  const std::string& id(size_t row) const { return lines_[row].id; }
  /// Fingerprint of all rows with their ids, in order.
  uint64_t fingerprint() const { return fingerprint_; }
  /// Whether a row needs a tokenizer.
  bool has_text() const { return has_text_; }

 private:
  struct Line {
    int64_t offset = 0;
    int64_t bytes = 0;
    uint64_t hash = 0;  // of its bytes
    std::string id;
  };

  Result<void> add(std::string_view line, int64_t offset, size_t number, ChatRows chat);
  Result<void> check_ids() const;
  std::string place(size_t number) const;

  std::filesystem::path path_;
  std::ifstream file_;
  std::vector<Line> lines_;
  std::vector<size_t> numbers_;  // [rows] line numbers
  uint64_t fingerprint_ = 0;
  bool has_text_ = false;
};

}  // namespace lockstep::launcher

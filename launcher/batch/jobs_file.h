// The file of a batch job: a JSON object a line, each one row of the job.
//
//   {"id": "a", "prompt": "Once upon a time"}
//   {"id": "b", "ids": [1, 5, 9], "max_new_tokens": 8}
//   {"messages": [{"role": "user", "content": "Why is the sky blue?"}], "seed": 7, "temperature": 0.7}
//
// Every line is read and checked when the file is opened; what stays in memory is where the lines are and their ids.
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

/// One row as it stands in the file: a prompt, ids or messages, and what is its own.
struct JobRow {
  std::string prompt;  // one of these three is there
  std::vector<int32_t> ids;
  std::vector<text::Message> messages;
  std::optional<int32_t> max_new_tokens;
  std::optional<std::vector<std::string>> stop_strings;
  std::map<std::string, std::string> generation;  // fields of GenerationConfig that a row may set, as JSON text

  friend bool operator==(const JobRow&, const JobRow&) = default;
};

/// A line of a jobs file: its id as JSON text (empty: it has none) and its row. `place` names it in messages. Fails
/// with `kInvalidArgument` for what is no such row; fields that mean nothing are refused, so that a wrong name is
/// noticed.
struct ParsedLine {
  std::string id;
  JobRow row;
};
Result<ParsedLine> parse_job_line(std::string_view line, const std::string& place);

/// What a file may hold: --chat decides whether messages are understood and ids are not.
enum class ChatRows { kNo, kYes };

/// An open jobs file. Used by one thread at a time.
class JobsFile {
 public:
  /// Reads and checks all lines; blank ones count for nothing. A row without an id has the number of its line. Fails
  /// with `kNotFound`, and with `kInvalidArgument` naming the line: a bad row, an id that came before, no rows at all.
  static Result<JobsFile> open(const std::filesystem::path& path, ChatRows chat);

  size_t size() const { return lines_.size(); }
  /// Row `row`. Fails with `kFailedPrecondition` when the file changed since it was opened.
  Result<JobRow> read(size_t row);
  /// The id of `row` as JSON text.
  const std::string& id(size_t row) const { return lines_[row].id; }
  /// Of all rows with their ids, in order.
  uint64_t fingerprint() const { return fingerprint_; }
  /// Whether a row needs a tokenizer.
  bool has_text() const { return has_text_; }

 private:
  struct Line {
    int64_t offset = 0;
    int64_t bytes = 0;
    std::string id;
  };

  Result<void> add(std::string_view line, int64_t offset, size_t number, ChatRows chat);
  Result<void> check_ids() const;
  std::string place(size_t number) const;

  std::filesystem::path path_;
  std::ifstream file_;
  std::vector<Line> lines_;
  std::vector<size_t> numbers_;  // [rows] of their lines
  uint64_t fingerprint_ = 0;
  bool has_text_ = false;
};

}  // namespace lockstep::launcher

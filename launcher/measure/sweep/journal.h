// The journal of a sweep: each point's outcome, written at once and never changed. An interrupted sweep continues from
// it.
//
//   DIR/journal.jsonl      {"journal": "lockstep sweep", "format": 1, "model": {…}}        the folder's model
//                          {"key": "tp 1, batch 1, …", "status": "ok", "result": {…}, …}   one line a point
//   DIR/journal-7.jsonl    the same, of one task of a Slurm array: no two processes write one file
//   DIR/failed-….txt       the output of a failed point; its line names the file
//
// A line counts only with its newline; a torn end is dropped.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/measure/sweep/grid.h"

namespace lockstep::launcher {

/// The model of a folder's sweeps.
struct ModelIdentity {
  std::string path;  // the directory, or the config of random weights; absolute
  bool random_weights = false;
  std::string config_hash;  // of the text of config.json, hexadecimal

  friend bool operator==(const ModelIdentity&, const ModelIdentity&) = default;
};

/// The machine on which a sweep was started.
struct Machine {
  std::string host, cpu;
  int cores = 0;  // cores that the sweep may use

  friend bool operator==(const Machine&, const Machine&) = default;
};

enum class PointStatus {
  kOk,
  kFailed,
  kImpossible,  // the model, the batch or the cores cannot be divided this way; nothing was started
  kDeadline,    // it ran too long and was ended
};

/// "ok", "failed", "impossible", "deadline".
std::string_view to_string(PointStatus status);

/// The outcome of one point.
struct PointRecord {
  std::string key;
  PointShape shape;
  SweepVariant variant;
  PointStatus status = PointStatus::kOk;
  int code = 0;         // exit code of the program, as a shell reports it
  std::string message;  // why it did not work, from its stderr
  double seconds = 0.0;
  double unix_time = 0.0;  // when it ended
  Machine machine;
  std::string command;  // the command that was started
  std::string output;   // file next to the journal with all output; empty if it worked or never started
  std::string result;   // the document of bench --json, a list of one a group for replicas; empty unless it worked

  friend bool operator==(const PointRecord&, const PointRecord&) = default;
};

/// "; all that it printed is in failed-….txt" of `folder`, or nothing without a kept output. Pure.
std::string output_in_words(const PointRecord& record, const std::filesystem::path& folder = {});

/// One line of a journal, with its newline. Pure.
std::string to_line(const PointRecord& record);
std::string to_line(const ModelIdentity& model);

/// The content of a journal's text.
struct JournalText {
  std::optional<ModelIdentity> model;  // empty: even the first line is torn
  std::vector<PointRecord> points;     // in their order
  size_t whole_bytes = 0;              // size of the complete lines
};

/// Fails with `kInvalidArgument` naming `path` and the line for a complete line that is not a journal's (a damaged
/// file).
Result<JournalText> parse_journal(std::string_view text, const std::filesystem::path& path);

/// All journals of a folder.
struct JournalFolder {
  std::optional<ModelIdentity> model;  // empty: there is no journal
  std::vector<PointRecord> points;     // the last record of each key, in the order in which keys appeared
};

/// Reads every journal of `folder` without changing it. Fails as `parse_journal`, and with `kInvalidArgument` if two
/// have different models.
Result<JournalFolder> read_journals(const std::filesystem::path& folder);

/// Fails with `kInvalidArgument` unless `found` is `expected`: a folder has one model.
Result<void> check_same_model(const ModelIdentity& found, const ModelIdentity& expected,
                              const std::filesystem::path& folder);

/// A journal that is being written. It is locked, so a second process cannot open it.
class Journal {
 public:
  /// Opens or creates `path` and drops a torn end. Fails with `kFailedPrecondition` if another process has it open,
  /// with `kInvalidArgument` if it cannot be written, and as `check_same_model` and `parse_journal`.
  static Result<std::unique_ptr<Journal>> open(const std::filesystem::path& path, const ModelIdentity& model);

  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Returns once the line is on the disk.
  Result<void> append(const PointRecord& record) { return write(to_line(record)); }

 private:
  Journal(std::filesystem::path path, int file) : path_(std::move(path)), file_(file) {}
  Result<void> write(const std::string& line);

  std::filesystem::path path_;
  int file_;
};

}  // namespace lockstep::launcher

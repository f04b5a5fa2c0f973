// The result file of a batch job: a JSON object a line, in the order of the jobs file.
//
//   {"id": "a", "text": "…", "ids": [5, 9, 2], "finish_reason": "eos"}
//   {"id": "b", "error": "…"}
//   {"id": 3, "answers": [{"text" …}, {"text" …}]}                       several answers to a prompt
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/batch/jobs_file.h"
#include "launcher/batch/row_results.h"
#include "lockstep/request.h"

namespace lockstep::launcher {

/// An answer as it is kept.
journal::RowAnswer to_row_answer(const Answer& answer);

/// A row's line, with its newline. `id` is JSON text.
std::string to_line(std::string_view id, const journal::RowResult& row);

/// How many rows were written.
struct WrittenRows {
  uint64_t rows = 0;
  uint64_t failed = 0;  // that have an error
};

/// Writes all rows, which are done, to `path`, whole or not at all; to stdout without one.
Result<WrittenRows> write_results(const std::optional<std::filesystem::path>& path, const JobsFile& jobs,
                                  const RowResults& results);

}  // namespace lockstep::launcher

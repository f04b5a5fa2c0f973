// The result file of a batch job: one JSON object per line, in row order.
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
#include "launcher/rows/row_results.h"
#include "lockstep/request.h"

namespace lockstep::launcher {

/// Converts an answer to its recorded form.
journal::RowAnswer to_row_answer(const Answer& answer);

/// The line of a row, with its newline. `id` is JSON text.
std::string to_line(std::string_view id, const journal::RowResult& row);

/// The number of rows written.
struct WrittenRows {
  uint64_t rows = 0;
  uint64_t failed = 0;  // with an error
};

/// Writes all rows, which must be finished, to `path`, whole or not at all; without a path to stdout.
Result<WrittenRows> write_results(const std::optional<std::filesystem::path>& path, const JobsFile& jobs,
                                  const RowResults& results);

}  // namespace lockstep::launcher

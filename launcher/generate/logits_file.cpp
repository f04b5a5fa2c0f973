#include "launcher/generate/logits_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {

Result<void> write_logits(const std::filesystem::path& path, std::string_view tensor,
                          const std::vector<std::vector<float>>& rows, int64_t vocabulary) {
  size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  const size_t steps = longest / static_cast<size_t>(vocabulary);
  const uint64_t bytes = rows.size() * longest * sizeof(float);
  std::string header = fmt::format(R"({{"{}":{{"dtype":"F32","shape":[{},{},{}],"data_offsets":[0,{}]}}}})", tensor,
                                   rows.size(), steps, vocabulary, bytes);
  header.resize((header.size() + 7) / 8 * 8, ' ');  // keeps the data aligned
  const uint64_t header_bytes = header.size();

  const std::vector<float> zeros(longest, 0.0f);
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(&header_bytes, 1)),
                                                   std::as_bytes(std::span(std::as_const(header)))};
  for (const auto& row : rows) {
    parts.push_back(std::as_bytes(std::span(row)));
    parts.push_back(std::as_bytes(std::span(zeros)).first((longest - row.size()) * sizeof(float)));
  }
  return write_file(path, parts);
}

}  // namespace lockstep::launcher

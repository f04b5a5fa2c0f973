// Fuzzes GGUF files: a header is refused, or its tensors lie apart in the file; then its config and its tokenizer are
// derived or refused. The first byte selects what is derived.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "runtime/core/check.h"
#include "runtime/gguf/derived_files.h"
#include "runtime/gguf/gguf_header.h"

namespace {

using namespace lockstep::gguf;

void check_tensors(const GgufHeader& header, int64_t file_size) {
  for (const TensorRecord& tensor : header.tensors) {
    LOCKSTEP_CHECK(tensor.offset >= 0 && tensor.bytes > 0, tensor.name, tensor.offset, tensor.bytes);
    LOCKSTEP_CHECK(tensor.offset + tensor.bytes <= file_size, tensor.name, tensor.offset, tensor.bytes, file_size);
    for (const TensorRecord& other : header.tensors) {
      const bool apart = tensor.offset + tensor.bytes <= other.offset || other.offset + other.bytes <= tensor.offset;
      LOCKSTEP_CHECK(&tensor == &other || apart, tensor.name, other.name);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::span<const uint8_t> file(data + 1, size - 1);
  const auto read = [&](int64_t offset, std::span<std::byte> dst) {
    LOCKSTEP_CHECK(offset >= 0 && static_cast<size_t>(offset) + dst.size() <= file.size(), offset, dst.size());
    std::memcpy(dst.data(), file.data() + offset, dst.size());
    return lockstep::Result<void>(lockstep::ok());
  };
  auto header = read_header({"fuzz.gguf", static_cast<int64_t>(file.size()), read});
  if (!header.has_value()) {
    LOCKSTEP_CHECK(!header.error().message.empty());
    return 0;
  }
  check_tensors(header.value(), static_cast<int64_t>(file.size()));
  const GgufModel model{{std::move(header).value()}};
  const auto made = data[0] % 3 == 0   ? make_config(model)
                    : data[0] % 3 == 1 ? make_tokenizer(model)
                                       : make_tokenizer_config(model);
  if (!made.has_value()) LOCKSTEP_CHECK(!made.error().message.empty());
  return 0;
}

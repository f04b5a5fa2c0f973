// Fuzzes model.safetensors.index.json beside two shards: it is refused with a message, or each tensor of the checkpoint
// is one of a shard's.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/checkpoint/checkpoint.h"
#include "tests/fuzz/directory_of_all.h"

namespace {

/// The two shards.
void write_shards(const lockstep::TemporaryDirectory& directory) {
  directory.write_safetensors("one.safetensors", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "0123");
  directory.write_safetensors("two.safetensors",
                              R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"c":{"dtype":"U8","shape":[1],)"
                              R"("data_offsets":[8,9]}})",
                              "012345678");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::filesystem::path& folder = lockstep::fuzz::directory_of_all(write_shards).path();
  std::ofstream(folder / "model.safetensors.index.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const auto checkpoint = lockstep::checkpoint::open_checkpoint(folder);
  if (!checkpoint.has_value()) {
    LOCKSTEP_CHECK(!checkpoint.error().message.empty());
    return 0;
  }
  for (const auto& [name, entry] : checkpoint.value()->tensors()) {
    const std::string_view shard = name == "a" ? "one.safetensors" : "two.safetensors";
    LOCKSTEP_CHECK(name == "a" || name == "b" || name == "c", name);
    LOCKSTEP_CHECK(entry.file == folder / shard, entry.file.string());
  }
  return 0;
}

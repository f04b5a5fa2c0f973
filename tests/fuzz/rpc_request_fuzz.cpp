// Fuzzes requests of the RPC protocol: a message of any bytes is refused, or becomes a request as a client could send
// it.
#include <capnp/serialize.h>
#include <kj/array.h>
#include <kj/exception.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/rpc/wire.h"

namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = R"({
  "model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
  "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 16, "hidden_act": "silu", "vocab_size": 32,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2})";

lockstep::Model tiny_model() {
  const fs::path folder = fs::temp_directory_path() / ("rpc_request_fuzz_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << kConfig;
  lockstep::Model model = lockstep::Model::open(folder).value();
  fs::remove_all(folder);
  return model;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::rpc;
  static const lockstep::Model model = tiny_model();
  auto words = kj::heapArray<capnp::word>(size / sizeof(capnp::word));
  std::memcpy(static_cast<void*>(words.begin()), data, words.size() * sizeof(capnp::word));
  try {
    capnp::FlatArrayMessageReader message(words, {.traversalLimitInWords = 1 << 16});
    const auto request = read_request(message.getRoot<wire::Request>(), model);
    if (request.has_value() && request.value().prompt.ids.empty()) __builtin_trap();
  } catch (const kj::Exception&) {  // as the RPC system refuses a damaged message
  }
  return 0;
}

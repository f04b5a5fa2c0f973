#include "runtime/cache/manifest.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <fmt/format.h>
#include <kj/exception.h>

#include <cstring>

#include "runtime/cache/manifest.capnp.h"
#include "runtime/core/error_kinds.h"

namespace lockstep::cache {
namespace {

Error no_manifest(std::string_view why) {
  return {ErrorKind::kInvalidArgument, fmt::format("[runtime/cache] cannot read a manifest: {}", why)};
}

std::string to_string(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

capnp::Text::Reader to_text(const std::string& text) { return {text.c_str(), text.size()}; }

Result<Manifest> read_manifest(wire::Manifest::Reader from) {
  if (from.getVersion() != kManifestVersion) {
    return no_manifest(fmt::format("found version {}, expected {}", from.getVersion(), kManifestVersion));
  }
  Manifest manifest;
  manifest.key.backend = to_string(from.getBackend());
  manifest.key.step = to_string(from.getStep());
  for (const auto field : from.getFields()) {
    manifest.key.fields.emplace_back(to_string(field.getName()), to_string(field.getValue()));
  }
  manifest.artifact = {from.getSize(), to_string(from.getSha256())};
  manifest.made_at = from.getMadeAt();
  manifest.took_s = from.getTookS();
  manifest.build = to_string(from.getBuild());
  manifest.host = to_string(from.getHost());
  if (from.getFailure().isError()) {
    const auto error = from.getFailure().getError();
    manifest.failure = Error{error_kind_named(to_string(error.getKind())).value_or(ErrorKind::kInternal),
                             to_string(error.getMessage())};
  }
  return manifest;
}

}  // namespace

std::vector<std::byte> encode(const Manifest& manifest) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<wire::Manifest>();
  to.setVersion(kManifestVersion);
  to.setBackend(to_text(manifest.key.backend));
  to.setStep(to_text(manifest.key.step));
  auto fields = to.initFields(static_cast<uint32_t>(manifest.key.fields.size()));
  for (uint32_t i = 0; i < fields.size(); ++i) {
    fields[i].setName(to_text(manifest.key.fields[i].first));
    fields[i].setValue(to_text(manifest.key.fields[i].second));
  }
  to.setSize(manifest.artifact.size);
  to.setSha256(to_text(manifest.artifact.sha256));
  to.setMadeAt(manifest.made_at);
  to.setTookS(manifest.took_s);
  to.setBuild(to_text(manifest.build));
  to.setHost(to_text(manifest.host));
  if (manifest.failure) {
    const std::string kind(lockstep::to_string(manifest.failure->kind));
    auto error = to.getFailure().initError();
    error.setKind(to_text(kind));
    error.setMessage(to_text(manifest.failure->message));
  }
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.begin());
  return {begin, begin + bytes.size()};
}

Result<Manifest> decode_manifest(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0) return no_manifest("found a part of a word at its end");
  std::vector<capnp::word> words(bytes.size() / sizeof(capnp::word));  // aligned copy of the bytes
  std::memcpy(words.data(), bytes.data(), bytes.size());
  const capnp::ReaderOptions limits{.traversalLimitInWords = 8 * words.size() + 1024, .nestingLimit = 16};
  try {
    capnp::FlatArrayMessageReader message(kj::arrayPtr(words.data(), words.size()), limits);
    return read_manifest(message.getRoot<wire::Manifest>());
  } catch (const kj::Exception& failure) {
    return no_manifest(failure.getDescription().cStr());
  }
}

}  // namespace lockstep::cache

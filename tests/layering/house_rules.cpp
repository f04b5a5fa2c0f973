#include "tests/layering/house_rules.h"

namespace lockstep::layering {
namespace {

/// A folder with private sources; others see one small header.
FolderRule with_one_header(std::string folder, std::vector<std::string> may_include) {
  const std::string header = folder + folder.substr(folder.rfind('/')) + ".h";
  return {std::move(folder), std::move(may_include), {header}};
}

/// The allowed includes of commands that measure and explain, and `others`.
std::vector<std::string> inside(std::vector<std::string> others) {
  for (const char* folder : {"runtime/*", "shards", "shards/*", "transport", "transport/*", "engine",
                             "engine/include/lockstep", "engine/*", "launcher/process", "launcher/report"}) {
    others.emplace_back(folder);
  }
  return others;
}

// "runtime/*" is one level: it leaves out runtime/backends/<name>, which only the list of drivers may name.
std::vector<FolderRule> folders() {
  return {
      {"runtime/core", {}},
      {"runtime/graph", {"runtime/core"}},
      {"runtime/device", {"runtime/core", "runtime/graph"}},
      {"runtime/sampling", {"runtime/core"}},
      {"runtime/probe", {"runtime/core"}},
      {"runtime/process", {"runtime/core"}},
      {"runtime/topology", {"runtime/core"}},
      {"runtime/backends/aten",
       {"runtime/core", "runtime/graph", "runtime/device", "runtime/sampling"},
       {"runtime/backends/aten/operations.h"}},
      with_one_header("runtime/backends/reference",
                      {"runtime/core", "runtime/graph", "runtime/device", "runtime/sampling", "runtime/backends/aten"}),
      with_one_header("runtime/backends/cpu",
                      {"runtime/core", "runtime/graph", "runtime/device", "runtime/sampling", "runtime/backends/aten"}),
      {"runtime/cuda", {"runtime/core"}},
      with_one_header("runtime/backends/cuda", {"runtime/core", "runtime/graph", "runtime/device", "runtime/sampling",
                                                "runtime/cuda", "runtime/topology"}),
      with_one_header("runtime/backends/neuron", {"runtime/core", "runtime/graph", "runtime/device", "runtime/sampling",
                                                  "runtime/process", "runtime/cache"}),
      {"runtime/cache", {"runtime/core", "runtime/device"}},
      {"runtime/journal", {"runtime/core", "runtime/device"}},
      {"runtime/trace", {"runtime/core", "runtime/device"}},
      {"runtime/gguf",
       {"runtime/core"},
       {"runtime/gguf/gguf_header.h", "runtime/gguf/gguf_model.h", "runtime/gguf/model_texts.h"}},
      {"runtime/checkpoint", {"runtime/core", "runtime/gguf"}},
      {"runtime/text", {"runtime/core", "runtime/gguf"}},
      {"runtime/constraint",
       {"runtime/core", "runtime/process", "runtime/text"},
       {"runtime/constraint/constraint.h", "runtime/constraint/constraint_host.h",
        "runtime/constraint/isolated_compiler.h"}},
      {"runtime/generation",
       {"runtime/core", "runtime/constraint", "runtime/gguf", "runtime/sampling", "runtime/text"}},
      {"shards/partition", {"runtime/*"}},
      {"shards/families", {"runtime/*", "shards/partition"}},
      {"shards", {"runtime/*", "shards/partition", "shards/families"}},
      {"shards/cost", {"runtime/*", "shards", "shards/partition", "shards/families"}},
      {"transport", {"runtime/core", "runtime/device", "runtime/topology"}},
      // Collectives over memory shared by all ranks, for loopback (threads) and shm (processes).
      {"transport/region", {"runtime/core", "runtime/device", "transport"}},
      with_one_header("transport/loopback", {"runtime/core", "runtime/device", "transport", "transport/region"}),
      with_one_header("transport/shm", {"runtime/core", "runtime/device", "transport", "transport/region"}),
      with_one_header("transport/local", {"runtime/core", "runtime/device", "transport", "transport/region"}),
      with_one_header("transport/mpi", {"runtime/core", "runtime/device", "transport"}),
      with_one_header("transport/watch", {"runtime/core", "transport"}),
      with_one_header("transport/two_level", {"runtime/core", "runtime/device", "transport"}),
      with_one_header("transport/nccl", {"runtime/core", "runtime/device", "runtime/cuda", "transport"}),
      {"actors", {"runtime/*", "shards", "shards/*", "transport"}},
      // The headers for users of the library.
      {"engine/include/lockstep",
       {"runtime/core", "runtime/checkpoint", "runtime/graph", "runtime/text", "runtime/constraint",
        "runtime/generation", "runtime/trace", "shards/partition"}},
      {"engine/group", {"runtime/*", "transport", "transport/*", "actors", "engine/include/lockstep"}},
      {"engine/model", {"runtime/*", "shards", "shards/*", "engine/include/lockstep", "engine/group"}},
      {"engine/requests", {"runtime/*", "actors", "engine/include/lockstep"}},
      {"engine/observe",
       {"runtime/*", "shards", "transport", "actors", "engine/include/lockstep", "engine/group", "engine/model"}},
      {"engine/inspect",
       {"runtime/*", "shards", "shards/*", "transport", "engine", "engine/include/lockstep", "engine/model"}},
      {"engine/rpc",
       {"runtime/core", "runtime/constraint", "runtime/text", "runtime/generation", "transport",
        "engine/include/lockstep"},
       {"engine/rpc/server.h", "engine/rpc/listening.h", "engine/rpc/engine.capnp.h"}},
      {"engine/python", {"engine/include/lockstep"}},
      {"engine", {"runtime/*", "shards", "actors", "engine/include/lockstep", "engine/*"}},
      {"engine/drivers.cpp", {"runtime/*", "runtime/backends/*", "engine"}},
      // The process around a group: the only folder that a client of the library needs besides its headers.
      {"launcher/process",
       {"runtime/core", "runtime/device", "runtime/process", "runtime/topology", "runtime/trace", "transport", "actors",
        "engine/include/lockstep", "engine/group"}},
      {"launcher/report", {"runtime/trace", "engine/include/lockstep"}},
      // Clients of the library: only its public headers.
      {"launcher/generate", {"runtime/core", "engine/include/lockstep", "launcher/process", "launcher/report"}},
      {"launcher/rows", {"runtime/core", "runtime/journal", "transport"}},
      {"launcher/batch",
       {"runtime/core", "runtime/text", "runtime/gguf", "runtime/journal", "runtime/process", "engine/include/lockstep",
        "launcher/process", "launcher/generate", "launcher/rows"}},
      {"launcher/commands",
       {"runtime/core", "runtime/text", "engine/include/lockstep", "launcher/process", "launcher/generate",
        "launcher/batch"}},
      {"launcher/serve/output", {"runtime/core"}, {"launcher/serve/output/output_reader.h"}},
      {"launcher/serve",
       {"runtime/core", "runtime/constraint", "engine/include/lockstep", "engine/group", "engine/rpc",
        "launcher/process", "launcher/serve/door", "launcher/serve/http", "launcher/serve/replicas"}},
      {"launcher/serve/engine",
       {"runtime/core", "engine/rpc", "launcher/serve/http"},
       {"launcher/serve/engine/combined.h", "launcher/serve/engine/engine.h", "launcher/serve/engine/lasting_engine.h",
        "launcher/serve/engine/rpc_engine.h"}},
      {"launcher/serve/replicas",
       {"runtime/core", "runtime/process", "launcher/process", "launcher/serve/engine", "launcher/serve/http"}},
      {"launcher/serve/page", {"runtime/core", "launcher/serve/http"}},
      {"launcher/serve/door",
       {"runtime/core", "runtime/process", "launcher/process", "launcher/serve/api", "launcher/serve/engine",
        "launcher/serve/http", "launcher/serve/page", "launcher/serve/replicas"}},
      {"launcher/serve/http",
       {"runtime/core"},
       {"launcher/serve/http/event_loop.h", "launcher/serve/http/client.h", "launcher/serve/http/exchange.h",
        "launcher/serve/http/server.h"}},
      // The parts of the server, which know neither MPI nor backends.
      {"launcher/serve/api",
       {"runtime/core", "runtime/generation", "runtime/text", "launcher/serve/http", "launcher/serve/engine",
        "launcher/serve/output"}},
      // Folders with access to private headers: graphs, steps, machines.
      {"launcher/inspect", inside({})},
      {"launcher/measure/plan", inside({})},
      {"launcher/measure/bench", inside({"launcher/measure/plan"})},
      {"launcher/measure/sweep", inside({"launcher/measure/bench"})},
      {"launcher/measure/suite", inside({"launcher/measure/bench", "launcher/measure/sweep"})},
      {"launcher/measure/doctor", inside({"launcher/measure/bench"})},
      {"launcher/cli",
       {"runtime/core", "runtime/device", "engine", "engine/include/lockstep", "engine/group", "launcher/*",
        "launcher/measure/*"}},
      {"launcher", {"runtime/core", "launcher/*", "launcher/measure/*"}},
      {"examples", {}},
      {"examples/rpc", {"engine/rpc"}},
      {"examples/internals", {"runtime/*", "shards", "shards/*", "transport", "transport/*", "actors"}},
      {"tests", {"**"}},
  };
}

std::vector<ThirdPartyRule> third_parties() {
  const std::vector<std::string> aten = {"runtime/backends/aten"};
  // Kernels, the additions of a collective and checksums of weights.
  const std::vector<std::string> kernels = {"runtime/backends/cpu", "runtime/core/tensor_sum.cpp", "runtime/probe",
                                            "transport", "transport/region"};
  // Files, memory maps, shared memory, cores: the system's interfaces have few users.
  const std::vector<std::string> system = {
      "runtime/core",    "runtime/checkpoint", "runtime/probe",      "runtime/process", "runtime/backends/*",
      "runtime/journal", "runtime/cache",      "transport",          "transport/*",     "engine/group",
      "engine/rpc",      "launcher/process",   "launcher/measure/*", "launcher/serve",  "launcher/serve/door",
      "launcher/rows",   "runtime/constraint"};
  return {
      {"fmt/", {"**"}},
      {"boost/outcome/", {"runtime/core"}},
      {"boost/asio/", {"launcher/serve/http"}},
      {"boost/beast/", {"launcher/serve/http"}},
      {"spdlog/", {"launcher/process"}},
      {"openssl/", {"runtime/core", "launcher/serve/page"}},
      {"curl/", {"runtime/cache"}},
      {"nlohmann/",
       {"runtime/cache", "runtime/journal", "runtime/trace", "runtime/gguf", "runtime/checkpoint", "runtime/text",
        "runtime/generation", "runtime/constraint", "engine", "engine/inspect", "engine/requests", "launcher/*",
        "launcher/measure/*", "launcher/serve/*"}},
      {"xgrammar/", {"runtime/constraint/grammar.cpp"}},
      {"pcre2.h", {"runtime/text", "runtime/checkpoint/module_pattern.cpp"}},
      {"utf8proc.h", {"runtime/text"}},
      {"hwloc.h", {"runtime/topology"}},
      {"caf/", {"actors"}},
      {"mpi.h", {"transport/mpi/adapter.cpp", "examples/02_mpi.cpp"}},
      {"lockstep/", {"examples"}},
      {"nanobind/", {"engine/python"}},
      {"ATen/", aten},
      {"c10/", aten},
      {"torch/", aten},
      {"hwy/", kernels},
      {"immintrin.h", kernels},
      {"emmintrin.h", kernels},
      {"arm_neon.h", kernels},
      {"cpuid.h", {"runtime/core"}},
      {"CLI/", {"launcher/cli"}},
      {"capnp/", {"runtime/cache", "runtime/journal", "engine/rpc", "launcher/serve/engine", "examples/rpc"}},
      {"kj/", {"runtime/cache", "runtime/journal", "engine/rpc", "launcher/serve/engine", "examples/rpc"}},
      {"prometheus/", {"launcher/serve/door"}},
      {"elf.h", {"engine/group/build_id.cpp"}},
      {"link.h", {"engine/group/build_id.cpp"}},
      {"dlfcn.h", {"runtime/backends/*", "runtime/cache", "runtime/cuda", "transport/mpi", "transport/nccl"}},
      {"sys/", system},
      {"linux/", system},
      {"fcntl.h", system},
      {"unistd.h", system},
      {"sched.h", system},
      {"time.h", system},
      {"pthread.h", system},
      {"pwd.h", {"launcher/serve/door"}},
      {"signal.h", {"runtime/constraint", "runtime/process", "launcher/process", "launcher/inspect"}},
      // doctor tries the network itself.
      {"arpa/inet.h", {"transport", "launcher/measure/doctor"}},
      {"ifaddrs.h", {"transport"}},
      {"net/if.h", {"transport"}},
      {"netdb.h", {"engine/rpc"}},
      {"netinet/", {"transport", "runtime/backends/*", "engine/rpc", "launcher/measure/doctor"}},
      {"poll.h",
       {"runtime/core", "runtime/cache", "runtime/constraint", "runtime/process", "transport", "transport/*",
        "launcher/process", "launcher/measure/doctor", "launcher/measure/sweep", "launcher/rows"}},
      {"gtest/", {"tests"}},
      {"gmock/", {"tests"}},
      {"benchmark/", {"tests"}},
  };
}

std::vector<WordRule> words() {
  return {
      {R"(\bstd::(cout|cerr|clog)\b|\bfmt::print\b|\b(v|f|vf|d)?printf\s*\(|\bf?puts\s*\(|\bperror\s*\()",
       {"launcher", "launcher/*", "launcher/measure/*", "launcher/serve/door", "examples", "examples/*", "tests"},
       "library code returns text or takes a Log; it never prints"},
      {R"(\bstd::(exit|_Exit|quick_exit|abort|terminate)\b|\b(_exit|_Exit|quick_exit)\s*\(|(^|[;{}\s])(::)?exit\s*\(|(^|[;{}\s])::abort\s*\()",
       {"runtime/process", "runtime/constraint", "launcher", "launcher/process", "launcher/serve/door",
        "launcher/measure/doctor", "examples", "examples/*", "tests"},  // the first two: forks
       "only the launcher ends the process; return an Error or use LOCKSTEP_CHECK"},
      {R"(\b(secure_)?getenv\b|\b(un)?setenv\b|\bputenv\b|\benviron\b)",
       {"engine/group/environment.cpp", "launcher/process", "tests"},
       "only one file reads the environment; take an option"},
      {R"(\bsleep_(for|until)\b|\bu?sleep\s*\(|\bnanosleep\b)",
       {"transport", "transport/*", "launcher/process", "launcher/batch", "launcher/measure/*"},
       "nothing waits by sleeping; wait for the event, or inject a clock"},
      {R"(\bLOCKSTEP_WITH_\w+)",
       {"runtime/backends/*", "transport/*"},
       "what a build has is decided inside a backend's folder (unavailable.cpp)"},
      {R"(\bstd::(ranges::)?views::)", {}, "clang 14, which builds the fuzzers, does not compile views; write a loop"},
  };
}

}  // namespace

Rules house_rules() {
  return {.folders = folders(),
          .third_parties = third_parties(),
          .words = words(),
          .banned_names = {"util", "utils", "common", "helper", "helpers", "misc", "manager"}};
}

}  // namespace lockstep::layering

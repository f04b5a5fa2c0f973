// Undefined behaviour leaves a file beside the reports of other sanitizers, for LD_PRELOAD: UBSan beside ASan writes to
// stderr alone, which a test that expects the process to fail does not read.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

// Of UBSan; not there in a program without it.
extern "C" [[gnu::weak]] void __ubsan_get_current_report_data(const char** kind, const char** message,
                                                              const char** file, unsigned* line, unsigned* column,
                                                              char** address);

// UBSan calls it for each report, before it ends the process.
extern "C" void __ubsan_on_report() {
  const char* options = std::getenv("UBSAN_OPTIONS");
  if (options == nullptr || __ubsan_get_current_report_data == nullptr) return;
  std::string_view path = options;
  const auto begin = path.find("log_path=");
  if (begin == std::string_view::npos) return;
  path.remove_prefix(begin + std::string_view("log_path=").size());
  path = path.substr(0, path.find(':'));
  std::FILE* report = std::fopen((std::string(path) + ".undefined." + std::to_string(getpid())).c_str(), "a");
  if (report == nullptr) return;
  const char *kind = "", *message = "", *file = "";
  unsigned line = 0, column = 0;
  char* address = nullptr;
  __ubsan_get_current_report_data(&kind, &message, &file, &line, &column, &address);
  std::fprintf(report, "%s:%u:%u: %s: %s\n", file, line, column, kind, message);
  std::fclose(report);
}

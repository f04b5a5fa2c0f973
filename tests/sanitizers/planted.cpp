// A process with one mistake, which a test expects to fail: planted MISTAKE. Exit code 7, whatever the sanitizer says.
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <string_view>
#include <thread>

int shared = 0;
int* volatile kept = nullptr;

int main(int count, char** words) {
  const std::string_view mistake = words[1];
  if (mistake == "overflow") {
    volatile int largest = INT_MAX;
    largest = largest + count;
  } else if (mistake == "bounds") {
    kept = new int[2];
    kept[count] = 1;
  } else if (mistake == "leak") {
    kept = new int[2];
    kept = nullptr;
  } else if (mistake == "race") {
    std::thread other([] { ++shared; });
    ++shared;
    other.join();
  }
  return 7;
}

# What the sanitizers' runtimes are told. Sourced, not run.

# export_sanitizer_options PRESET FOLDER LIBRARIES: for asan and tsan. Each process that a sanitizer reports leaves a file
# in FOLDER, whatever its exit code: a test that expects a process to fail does not look at its stderr.
# LIBRARIES is the folder of sanitizer_helpers.so (tests/sanitizers).
export_sanitizer_options() {
  local lists=$root/scripts/sanitizers log=log_path=$2/report
  case $1 in
    asan)
      mkdir -p "$2"
      # intercept_tls_get_addr=0: the runtime takes one in 256 blocks of thread-local memory of late libraries for a block
      # with an old glibc's header, and fails on the addresses that it reads there (github.com/google/sanitizers/issues/1322).
      export ASAN_OPTIONS=detect_leaks=1:verify_asan_link_order=0:intercept_tls_get_addr=0:$log
      export LD_PRELOAD=$3/sanitizer_helpers.so
      export LSAN_OPTIONS=suppressions=$lists/lsan.supp:print_suppressions=0
      # GCC's UBSan sets ASan's path to its own, and writes to stderr itself: sanitizer_helpers.so writes its file.
      export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:suppressions=$lists/ubsan.supp:$log
      ;;
    tsan)
      mkdir -p "$2"
      export TSAN_OPTIONS=ignore_noninstrumented_modules=1:intercept_tls_get_addr=0:suppressions=$lists/tsan.supp:$log
      export UCX_MEM_EVENTS=n  # UCX, below MPICH, patches calls that the sanitizer intercepts; together they crash
      ;;
  esac
}

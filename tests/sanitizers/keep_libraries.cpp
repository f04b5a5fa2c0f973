// Keeps unloaded libraries, for LD_PRELOAD: the leak detector cannot name what allocated in a library that is gone.
extern "C" int dlclose(void*) noexcept { return 0; }

# Functions that create targets. Folder = target = namespace; sources are listed, flags are in `lockstep_flags`.

add_library(lockstep_flags INTERFACE)
target_compile_features(lockstep_flags INTERFACE cxx_std_20)
target_compile_options(lockstep_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers -ffp-contract=off)
# GCC 12 reports overlaps and overflows in std::string that do not exist (its bug 105651), more of them with precompiled
# headers; the sanitizers detect real ones.
target_compile_options(lockstep_flags INTERFACE
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow>)
target_include_directories(lockstep_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(LOCKSTEP_WARNINGS_AS_ERRORS)
  target_compile_options(lockstep_flags INTERFACE -Werror)
endif()
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_flags INTERFACE
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:LOCKSTEP_UNWATCHED>>>:-fsanitize=${LOCKSTEP_SANITIZE}> -fno-omit-frame-pointer)
  # Without PIE, whose relocations would be a third of the programs: hundreds of megabytes each.
  target_link_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE}
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
endif()

# Headers that most sources include, precompiled for libraries, and for tests with GoogleTest. A source with its own
# compiler options (lockstep_source_options) cannot use them. `scripts/check headers` works without them, so it detects
# headers that do not include what they need.
set(lockstep_common_headers <algorithm> <array> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span>
                            <string> <string_view> <utility> <variant> <vector> <fmt/format.h>)

# lockstep_add_precompiled(NAME target HEADERS header… LIBRARIES target…)
function(lockstep_add_precompiled)
  cmake_parse_arguments(ARG "" "NAME" "HEADERS;LIBRARIES" ${ARGN})
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "")
  add_library(${ARG_NAME} OBJECT "${source}")
  target_link_libraries(${ARG_NAME} PRIVATE lockstep_flags ${ARG_LIBRARIES})
  target_precompile_headers(${ARG_NAME} PRIVATE ${ARG_HEADERS})
endfunction()

lockstep_add_precompiled(NAME lockstep_library_headers HEADERS ${lockstep_common_headers} LIBRARIES fmt::fmt)
set_target_properties(lockstep_library_headers PROPERTIES POSITION_INDEPENDENT_CODE ON)

# Tests are compiled more often than run; the tested library has its own optimisation.
add_library(lockstep_test_flags INTERFACE)
target_link_libraries(lockstep_test_flags INTERFACE lockstep_flags)
target_compile_options(lockstep_test_flags INTERFACE $<$<CONFIG:Release>:-O1>)
if(LOCKSTEP_WITH_TESTS)
  lockstep_add_precompiled(NAME lockstep_test_headers HEADERS ${lockstep_common_headers} <gmock/gmock.h>
                           LIBRARIES lockstep_test_flags fmt::fmt GTest::gmock)
endif()

# lockstep_add_library(NAME target SOURCES file… [PUBLIC target…] [PRIVATE target…] [UNITY always|optional|groups])
# A static library of position-independent code (backend modules also link it). UNITY: its sources are compiled as one,
# always or if LOCKSTEP_UNITY is ON; so no two of them may have the same name in an unnamed namespace (an overload of
# another source would be called without a warning), and none may define a macro for the headers that it includes.
# groups: if it is ON, each group of sources that lockstep_unity_group names.
function(lockstep_add_library)
  cmake_parse_arguments(ARG "" "NAME;UNITY" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${ARG_NAME} STATIC ${ARG_SOURCES})
  set_target_properties(${ARG_NAME} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${ARG_NAME} PUBLIC lockstep_flags ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  target_precompile_headers(${ARG_NAME} REUSE_FROM lockstep_library_headers)
  if(ARG_UNITY STREQUAL "always" OR (ARG_UNITY AND LOCKSTEP_UNITY))
    set_target_properties(${ARG_NAME} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    if(ARG_UNITY STREQUAL "groups")
      set_target_properties(${ARG_NAME} PROPERTIES UNITY_BUILD_MODE GROUP)
    endif()
    target_compile_options(${ARG_NAME} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# lockstep_unity_group(name source…)
function(lockstep_unity_group name)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${name})
endfunction()

# lockstep_leave_threads_unwatched(target…)
# ThreadSanitizer's preset compiles their sources without it.
function(lockstep_leave_threads_unwatched)
  if(LOCKSTEP_SANITIZE MATCHES thread)
    set_target_properties(${ARGN} PROPERTIES LOCKSTEP_UNWATCHED ON DISABLE_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

# lockstep_source_options(source option…)
# Compiler options of one source of this folder. It does not use precompiled headers, which have other options.
function(lockstep_source_options source)
  set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${ARGN}")
endfunction()

# lockstep_stretch_for_sanitizers(seconds)
# Multiplies the variable where sanitizers slow the tests: a limit that a test gets as an argument.
function(lockstep_stretch_for_sanitizers seconds)
  if(LOCKSTEP_SANITIZE)
    set(factor 5)
    if(LOCKSTEP_SANITIZE MATCHES thread)
      set(factor 10)
    endif()
    math(EXPR ${seconds} "${${seconds}} * ${factor}")
    set(${seconds} ${${seconds}} PARENT_SCOPE)
  endif()
endfunction()

# lockstep_stretch_limits()
# Multiplies TIMEOUT of all tests of this folder, once it has been read. Folders with lockstep_add_test or
# lockstep_add_ranks_test need no call of it.
function(lockstep_stretch_limits)
  cmake_language(DEFER GET_CALL_IDS calls)
  if(NOT stretch_limits IN_LIST calls)
    cmake_language(DEFER ID stretch_limits CALL lockstep_stretch_limits_now)
  endif()
endfunction()

function(lockstep_stretch_limits_now)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test IN LISTS tests)
    get_test_property(${test} TIMEOUT limit)
    if(limit)
      lockstep_stretch_for_sanitizers(limit)
      set_tests_properties(${test} PROPERTIES TIMEOUT ${limit})
    endif()
  endforeach()
endfunction()

# lockstep_add_test(NAME name SOURCES file… LIBRARIES target… [LABELS label…] [TIMEOUT s])
# One GoogleTest program, run by ctest under `name`. The default label is unit. testing::TempDir() is in the build
# folder.
function(lockstep_add_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  lockstep_stretch_limits()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE lockstep_test_flags ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  target_precompile_headers(${ARG_NAME} REUSE_FROM lockstep_test_headers)
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  set(files ${CMAKE_BINARY_DIR}/test-files/${ARG_NAME})
  file(MAKE_DIRECTORY ${files})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "TEST_TMPDIR=${files}")
endfunction()

# The two ways in which a target comes into being. Folder = target = namespace; sources are listed, flags travel in
# `lockstep_flags`.

add_library(lockstep_flags INTERFACE)
target_compile_features(lockstep_flags INTERFACE cxx_std_20)
target_compile_options(lockstep_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers -ffp-contract=off)
# GCC 12 sees overlaps in std::string concatenation that are not there (its bug 105651).
target_compile_options(lockstep_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_include_directories(lockstep_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(LOCKSTEP_WARNINGS_AS_ERRORS)
  target_compile_options(lockstep_flags INTERFACE -Werror)
endif()
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()

# lockstep_add_library(NAME target SOURCES file… [PUBLIC target…] [PRIVATE target…])
# A static library of position-independent code (backend modules link it too).
function(lockstep_add_library)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${ARG_NAME} STATIC ${ARG_SOURCES})
  set_target_properties(${ARG_NAME} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${ARG_NAME} PUBLIC lockstep_flags ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

# lockstep_add_test(NAME name SOURCES file… LIBRARIES target… [LABELS label…] [TIMEOUT s])
# One GoogleTest program, run by ctest under `name`. The default label is unit.
function(lockstep_add_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE lockstep_flags ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()

include_guard(GLOBAL)

# lockstep_add_ranks_test(NAME name RANKS n COMMAND target|program [argument…] [FAMILY OPEN_MPI|MPICH] [DEADLINE s]
#                         [LABELS label…] [MPIRUN option…])
# A ctest that starts n processes through the mpirun of a family, inside a deadline, and leaves nothing behind
# (run_ranks.py). Skipped where there is no such mpirun. The label multiprocess is added.
function(lockstep_add_ranks_test)
  cmake_parse_arguments(ARG "" "NAME;RANKS;DEADLINE;FAMILY" "COMMAND;LABELS;MPIRUN" ${ARGN})
  if(NOT ARG_FAMILY)
    set(ARG_FAMILY OPEN_MPI)
  endif()
  if(NOT ARG_DEADLINE)
    set(ARG_DEADLINE 120)
  endif()
  math(EXPR ctest_limit "${ARG_DEADLINE} + 30")
  set(deadline ${ARG_DEADLINE})
  lockstep_stretch_for_sanitizers(deadline)
  lockstep_stretch_limits()  # of ctest
  list(POP_FRONT ARG_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  set(options)
  foreach(option IN LISTS ARG_MPIRUN)
    list(APPEND options --mpirun-option=${option})
  endforeach()
  add_test(NAME ${ARG_NAME}
           COMMAND python3 ${PROJECT_SOURCE_DIR}/tests/multiprocess/run_ranks.py --mpirun "${LOCKSTEP_${ARG_FAMILY}_MPIEXEC}" --ranks
                   ${ARG_RANKS} --deadline ${deadline} ${options} -- ${program} ${ARG_COMMAND})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "multiprocess;${ARG_LABELS}" TIMEOUT ${ctest_limit}
                       SKIP_RETURN_CODE 77)
endfunction()

# Copies the libraries that `library` needs beside its installed copy, except those of the C and C++ compilers. MPI is
# none of them: it is loaded at run time. They are found by liblockstep.so's DT_RPATH, which counts for them, too.
set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lockstep/lib")
# A wheel has no symbolic links.
file(REAL_PATH "${folder}/${soname}" versioned)
if(NOT versioned STREQUAL "${folder}/${soname}")
  file(RENAME "${versioned}" "${folder}/${soname}")
endif()
file(GET_RUNTIME_DEPENDENCIES LIBRARIES "${library}" RESOLVED_DEPENDENCIES_VAR needed UNRESOLVED_DEPENDENCIES_VAR missing
     PRE_EXCLUDE_REGEXES "^(libc|libm|libdl|librt|libpthread|ld-linux-.*|libstdc\\+\\+|libgcc_s)\\.so")
if(missing)
  message(FATAL_ERROR "cannot bundle ${library}: found no ${missing}, expected all of its libraries; run scripts/setup")
endif()
foreach(path IN LISTS needed)
  cmake_path(GET path FILENAME name)
  file(REAL_PATH "${path}" file)
  message(STATUS "Bundling: ${name}")
  file(COPY_FILE "${file}" "${folder}/${name}")
endforeach()

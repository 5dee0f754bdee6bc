# Precompiled headers, since headers take most of the compile time of a small file. Two sets,
# `values` and `actors`; troupe_precompile(TARGET SET) makes a target use one. No source relies on
# them: the build with clang does without.
set(troupe_values_headers <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <functional> <map> <memory> <mutex>
    <optional> <set> <string> <type_traits> <utility> <vector>
    "${CMAKE_CURRENT_SOURCE_DIR}/include/troupe/op.hpp" "${CMAKE_CURRENT_SOURCE_DIR}/include/troupe/ops.hpp")
set(troupe_actors_headers ${troupe_values_headers} <chrono> <condition_variable> <deque> <unordered_map> <variant>
    <caf/all.hpp> "${CMAKE_CURRENT_SOURCE_DIR}/include/troupe/session.hpp")
set(troupe_tests_headers <doctest/doctest.h>)

# Targets with the same flags share one precompiled header, which an object library of its own owns:
# a target whose header others reuse is built as a whole before them. "tests": with the test
# framework. "apart": for a target with flags of its own.
function(troupe_precompile target set)
  set(headers ${troupe_${set}_headers})
  # Checks of each index, in builds with sanitizers: elsewhere they cost too much. Code that uses
  # CAF has none, as CAF's spawn() without arguments dereferences a null pointer to an empty tuple.
  set(checks $<$<AND:$<BOOL:${TROUPE_SANITIZE}>,$<STREQUAL:${set},values>>:_GLIBCXX_ASSERTIONS>)
  target_compile_definitions(${target} PRIVATE ${checks})
  set(owner troupe_headers_${set})
  if("tests" IN_LIST ARGN)
    list(PREPEND headers ${troupe_tests_headers})
    set(owner test_headers_${set})
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)  # for ccache
  if("apart" IN_LIST ARGN)
    target_precompile_headers(${target} PRIVATE ${headers})
    return()
  endif()
  if(NOT TARGET ${owner})
    add_library(${owner} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
    target_include_directories(${owner} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_include_directories(${owner} SYSTEM PRIVATE ${DOCTEST_INCLUDE}
      $<TARGET_PROPERTY:CAF::core,INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_libraries(${owner} PRIVATE troupe_flags spdlog::spdlog)
    target_compile_definitions(${owner} PRIVATE ${checks})
    target_compile_options(${owner} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
    if("tests" IN_LIST ARGN)  # as programs are compiled, and not as libraries
      set_target_properties(${owner} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${owner} PRIVATE -fPIE)
    endif()
    target_precompile_headers(${owner} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

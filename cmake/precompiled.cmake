# Precompiled headers: they are most of the time of a small file. Two sets, `values` and `actors`; a target that says
# troupe_precompile(TARGET SET) reads them precompiled. No source relies on them: the build with clang does without.
set(troupe_values_headers <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <functional> <map> <memory> <mutex>
    <optional> <set> <string> <type_traits> <utility> <vector>
    "${CMAKE_CURRENT_SOURCE_DIR}/include/troupe/op.hpp" "${CMAKE_CURRENT_SOURCE_DIR}/include/troupe/ops.hpp")
set(troupe_actors_headers ${troupe_values_headers} <chrono> <condition_variable> <deque> <unordered_map> <variant>
    <caf/all.hpp> "${CMAKE_CURRENT_SOURCE_DIR}/include/troupe/session.hpp")
set(troupe_tests_headers <doctest/doctest.h>)

# Targets whose flags are the same share one.
function(troupe_precompile target set)
  set(headers ${troupe_${set}_headers})
  if("tests" IN_LIST ARGN)
    list(PREPEND headers ${troupe_tests_headers})
    set(set tests_${set})
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)  # for ccache
  get_property(first GLOBAL PROPERTY troupe_precompiled_${set})
  if(first AND NOT "apart" IN_LIST ARGN)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${headers})
    if(NOT "apart" IN_LIST ARGN)
      set_property(GLOBAL PROPERTY troupe_precompiled_${set} ${target})
    endif()
  endif()
endfunction()

# The rooms of the library, from the ground up: `troupe_room(FOLDER SEES ROOMS...)`. Each room is
# one folder and one static library. A room includes public headers and the headers of the rooms
# that it SEES; it links these rooms and the rooms that they see. It may only see rooms above it in
# this file. tests/house reads this file and checks includes and undefined symbols against it.
#
# LIBRARIES: the packages whose headers the room may include.
# APART: the room is a library of its own beside libtroupe, which it links instead of the rooms.
function(troupe_room folder)
  cmake_parse_arguments(room "APART" "" "SEES;FOLDERS;LIBRARIES" ${ARGN})
  set(globs ${folder}/*.cpp)
  foreach(part ${room_FOLDERS})
    list(APPEND globs ${folder}/${part}/*.cpp)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  list(FILTER sources EXCLUDE REGEX "cuda[^/]*\\.cpp$")
  string(REPLACE "/" "_" name ${folder})
  set(target troupe_${name})
  set(seen "")
  foreach(lower ${room_SEES})
    string(REPLACE "/" "_" lower ${lower})
    list(APPEND seen troupe_${lower})
  endforeach()
  if(sources)
    add_library(${target} STATIC ${sources})
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> PRIVATE .)
    target_include_directories(${target} SYSTEM PRIVATE $<TARGET_PROPERTY:CAF::core,INTERFACE_INCLUDE_DIRECTORIES>
      $<TARGET_PROPERTY:nlohmann_json::nlohmann_json,INTERFACE_INCLUDE_DIRECTORIES>
      ${EIGEN3_INCLUDE_DIRS} ${Protobuf_INCLUDE_DIRS})
    if(room_APART)
      target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:troupe_flags> spdlog::spdlog PUBLIC troupe)
    else()
      target_link_libraries(${target} PRIVATE troupe_flags spdlog::spdlog PUBLIC ${seen})
      set_property(GLOBAL APPEND PROPERTY troupe_objects $<TARGET_OBJECTS:${target}>)
    endif()
    if("CAF" IN_LIST room_LIBRARIES)
      troupe_precompile(${target} actors)
    elseif(folder STREQUAL "ops")  # has flags of its own
      troupe_precompile(${target} values apart)
    else()
      troupe_precompile(${target} values)
    endif()
  else()  # headers only
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${seen})
  endif()
  set_property(GLOBAL APPEND PROPERTY troupe_rooms ${target})
endfunction()

troupe_room(graph/base)
troupe_room(data/files SEES graph/base LIBRARIES zlib nlohmann)
troupe_room(graph SEES graph/base)
troupe_room(devices/threads)
troupe_room(devices/memory SEES devices/threads graph/base)
troupe_room(devices SEES devices/memory devices/threads graph graph/base LIBRARIES CUDA cuBLAS oneDNN)
troupe_room(ops SEES devices devices/threads graph graph/base
  FOLDERS support elementwise reductions arrays indexing linear_algebra images nn random state control_flow
  LIBRARIES Eigen oneDNN cuBLAS CUDA)
troupe_room(placement/passes SEES graph)
troupe_room(gradients SEES ops graph graph/base)
troupe_room(ops/check SEES gradients ops devices devices/memory graph)
troupe_room(nn SEES gradients ops graph graph/base)
troupe_room(placement SEES placement/passes devices devices/memory graph)
troupe_room(data SEES graph graph/base data/files FOLDERS source images records text LIBRARIES zlib libjpeg libpng protobuf nlohmann utf8proc)
troupe_room(net/wire SEES graph graph/base LIBRARIES CAF protobuf)
troupe_room(net/certificates SEES net/wire LIBRARIES OpenSSL)
troupe_room(net/link SEES net/certificates net/wire devices/memory devices/threads graph/base LIBRARIES Boost.Asio OpenSSL spdlog)
troupe_room(net/caf SEES net/link LIBRARIES CAF spdlog)
troupe_room(net/mesh SEES net/caf net/link net/wire devices/memory devices/threads graph/base LIBRARIES CAF spdlog)
troupe_room(actors/observe SEES devices/memory data/files graph LIBRARIES spdlog)
troupe_room(actors/async SEES net/wire LIBRARIES CAF spdlog)
troupe_room(actors/engine/program SEES placement devices graph)
troupe_room(actors/engine SEES actors/engine/program actors/async actors/observe placement devices devices/memory devices/threads
    graph/base
  LIBRARIES CAF spdlog)
troupe_room(actors/cluster SEES actors/engine actors/async actors/observe net/mesh net/caf net/link net/wire placement
    devices devices/memory devices/threads graph graph/base
  LIBRARIES CAF spdlog)
troupe_room(actors/master SEES actors/cluster actors/engine actors/engine/program actors/async actors/observe net/wire placement placement/passes
    devices devices/threads graph graph/base
  LIBRARIES CAF spdlog)
troupe_room(training/rules SEES devices/memory devices/threads graph graph/base)
troupe_room(training/codecs SEES devices/threads graph/base)
troupe_room(training/parameters SEES training/codecs training/rules actors/observe net/wire devices devices/memory graph graph/base
  LIBRARIES CAF spdlog)
troupe_room(training/checkpoints SEES training/parameters training/rules data/files devices/threads graph graph/base
  LIBRARIES CAF OpenSSL spdlog)
troupe_room(training/shards SEES training/checkpoints training/parameters training/codecs training/rules actors/cluster actors/async
    devices devices/memory graph graph/base
  LIBRARIES CAF spdlog)
troupe_room(training/input SEES actors/cluster actors/async data ops devices graph graph/base
  LIBRARIES CAF spdlog)
troupe_room(training/control SEES training/rules actors/async net/wire graph/base LIBRARIES CAF)
troupe_room(training/group SEES training/control training/input training/shards training/checkpoints training/parameters training/codecs training/rules actors/master
    actors/cluster actors/async net/mesh net/link net/wire nn data/files graph graph/base
  LIBRARIES CAF spdlog)
troupe_room(training/metrics SEES graph/base)
troupe_room(training/loop SEES training/metrics training/group training/control training/checkpoints training/codecs actors/master actors/async data graph graph/base data/files
  LIBRARIES CAF spdlog)
troupe_room(chaos APART SEES training/loop training/group training/shards training/checkpoints training/parameters training/codecs training/rules
    actors/master actors/cluster net/link net/caf data/files devices graph graph/base
  LIBRARIES CAF)

# Plugins: shared libraries with ops (include/troupe/custom_op.hpp). Here, and for who has found the package.

# A program that loads plugins: all of the library is in it, and its symbols are there for them.
function(troupe_enable_plugins target)
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
  target_link_options(${target} PRIVATE "LINKER:--whole-archive,$<TARGET_FILE:troupe::troupe>,--no-whole-archive")
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
endfunction()

# A plugin NAME.so of these files. It links nothing of the library: the program that loads it has all of it.
function(troupe_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "")
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_include_directories(${name} SYSTEM PRIVATE $<TARGET_PROPERTY:troupe::troupe,INTERFACE_INCLUDE_DIRECTORIES>)
endfunction()

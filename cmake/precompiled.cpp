// Nothing: the owner of precompiled headers needs a source file (cmake/precompiled.cmake).

# Filled in by the embedding part: headers, library and the package configuration for find_package(troupe).

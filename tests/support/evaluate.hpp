// Includes ops/check/evaluate.hpp, which evaluates a graph kernel by kernel, under the name that
// tests use.
#pragma once

#include "ops/check/evaluate.hpp"

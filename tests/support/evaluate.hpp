// What a graph computes, kernel by kernel, under the name that tests know it by.
#pragma once

#include "ops/check/evaluate.hpp"

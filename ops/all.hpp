// The ops of the project, sorted: each is made by the file of its name, and listed in ops/all.cpp.
#pragma once

#include "troupe/op.hpp"

namespace troupe {

Op add_op();
Op cast_op();
Op divide_op();
Op equal_op();
Op exp_op();
Op fill_op();
Op greater_op();
Op identity_op();
Op log_op();
Op maximum_op();
Op multiply_op();
Op negate_op();
Op relu_op();
Op sigmoid_op();
Op sqrt_op();
Op square_op();
Op stop_gradient_op();
Op subtract_op();
Op tanh_op();
Op where_op();
Op with_gradient_op();

}  // namespace troupe

// regroup: reshapes whose sizes come from other values, so that they may be unknown while building.
// For composed ops: einsum, group_norm, gradients of decompositions.
#pragma once

#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// x with dimensions joined, split, added or dropped as `pattern` says: "a b c -> a (b c)" joins
// two, "a (2 c) -> a 2 c" splits one, "a b -> a 1 b" adds one. More values on the left provide more
// sizes: "a (b c), b c -> a b c" for x and one value of `likes`. A name has the same size
// everywhere. Returns a plain Reshape if that is enough, or x itself. With `checked`, sizes unknown
// while building are compared in the step; a Reshape would only count elements.
Output regroup(Output x, const std::string& pattern, const std::vector<Output>& likes = {},
               bool checked = false);

// x with a dimension of size 1 inserted before dimension `axis`, which may be ndim; a negative axis
// counts from the end of the result.
Output with_axis(Output x, int axis);

}  // namespace troupe

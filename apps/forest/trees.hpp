// Two ops of this program: GrowTree grows a decision tree, ApplyTree classifies with it. A tree is
// grown node by node, each from other records, so ops on whole tensors would read all records at
// each level of it; a kernel reads those of a node.
#pragma once

#include <vector>

#include "troupe/custom_op.hpp"

std::vector<troupe::Op> tree_ops();

struct Tree {
  // Node i: `feature` is -1 in a leaf; else records with a bin of at most `limit` go to node
  // `left`, the others to the one after it. i32 [nodes].
  troupe::Output feature, limit, left;
  troupe::Output share;  // f32 [nodes, classes]: the share of each class among the node's records
  troupe::Output gain;   // f64 [features]: how much of the impurity each feature took away
};

struct TreeOptions {
  int64_t classes = 2;   // at most 255
  int64_t tries = 1;     // features that a node looks at, drawn anew for each
  int64_t leaf_min = 1;  // records of the sample in a leaf
};

// CART (Breiman et al. 1984) with Gini's impurity on a bootstrap sample, as in a random forest
// (Breiman 2001). bins u8 [features, n]; labels i64 [n] in [0, classes); seed i64[].
Tree grow_tree(troupe::Output bins, troupe::Output labels, troupe::Output seed,
               const TreeOptions& options, troupe::Origin at = troupe::Origin::here());

// bins u8 [n, features] -> f32 [n, classes], the shares of each record's leaf
troupe::Output apply_tree(troupe::Output bins, const Tree& tree,
                          troupe::Origin at = troupe::Origin::here());

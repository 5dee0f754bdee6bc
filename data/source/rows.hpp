// rows_stage(): the rows of tensors that are in memory, as records.
#pragma once

#include <string>
#include <vector>

#include "data/source/stage.hpp"

namespace troupe {

// Record i is row i of each column, without a copy. `fields`: names and types of a row; the columns
// have the same number of rows. `from`: the files they come from; messages name the first one,
// whose path is `path`. Where `starts`, i64 [rows + 1], is defined for a column, row i is its
// elements [starts[i], starts[i + 1]).
Stage rows_stage(Fields fields, std::vector<Tensor> columns, std::string path,
                 std::vector<SourceFile> from, std::vector<Tensor> starts = {});

}  // namespace troupe

// The record files of TensorFlow: their reader, and the function that parses their Examples.
#pragma once

#include "data/files.hpp"
#include "data/source/stage.hpp"

namespace troupe {

// tfrecord: the field `record` u8 [-1], the bytes of each record. Arguments:
//   paths       files, folders and patterns (list_files()), plain or gzipped
//   interleave  so many files are read in turn, a record each, 1 by default; the order is that of
//               tf.data's interleave(cycle_length=...)
Stage tfrecord_stage(const SourceArgs& args, const Files& files);

// example: parses a tf.train.Example, field `field` (`record` by default), u8 [-1]. Its features
// take the place of that field; other fields stay, behind them. Arguments, an entry each a feature:
//   names   of the features, wanted in every record
//   dtypes  u8 for one text of bytes, f32 for floats, i64 for whole numbers
//   shapes  "[28, 28]"; "[]" for one value; one size may be -1, which the record decides
//   fields  names of the fields, by default those of the features
SourceStep bind_example(const Fields& inputs, const SourceArgs& args);

}  // namespace troupe

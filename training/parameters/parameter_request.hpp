// ParameterRequest: a kernel's request for one parameter: a pull, a push or a write. It is cut into
// a request for each slice, and puts the answers together.
// Owner: ParameterClient. Thread: any, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "devices/run_context.hpp"
#include "training/codecs/residuals.hpp"
#include "training/parameters/local_shard.hpp"
#include "training/parameters/outcome.hpp"

namespace troupe {

struct SliceRoute {
  uint32_t slice = 0;
  int64_t offset = 0, size = 0;  // as of Slice
  std::string task;
  ShardDoor shard;
  bool local = false;          // the shard is in this process
  LocalShard* here = nullptr;  // if local: to call it directly; valid as long as `shard`
};

struct ParameterRoute {
  DType dtype = DType::none;
  Shape shape;
  std::vector<SliceRoute> slices;  // by offset, without gaps
  // The forms in which gradients of all elements, and whole slices pulled in a training step,
  // travel.
  Codec push = {}, pull = {};
  uint64_t seed = 0;  // of codecs that draw
  FlushPlan plan = {};
  std::optional<Optimizer> optimizer = {};
  bool table = false;  // its rows are made on first touch, and its slices are groups of rows
};

// Requests copy by these numbers, and they come from another process. Throws:
// Error(invalid_argument) unless the slices are the parameter.
void check_route(const std::string& parameter, const ParameterRoute& route);
// True if a request that was cut by one of them fits the other.
bool same_layout(const ParameterRoute& a, const ParameterRoute& b);

// The share of one slice in a request.
struct SliceShare {
  size_t index = 0;   // in the parameter's slices
  Gradient gradient;  // push, write: of this slice
  // pull: the rows of this slice, i64 [n], from its begin; of a table, as asked for. Undefined: all
  // elements
  Tensor rows;
  int64_t row_size = 0;         // elements; with `rows`
  std::vector<int64_t> places;  // the positions of `rows` among those asked for; empty: all, in
                                // their order
  int64_t bytes = 0;            // of `gradient`, or of the rows that are pulled
};

struct ParameterRequest {
  using Make = std::function<Tensor(DType, const Shape&)>;
  enum class Kind : uint8_t { pull, rows, push, write };

  Kind kind = Kind::pull;
  std::string parameter;
  ParameterStep at;
  uint8_t write = 0;   // Push::write
  int64_t number = 0;  // Push::number
  Tensor indices;      // rows: as asked for, i64 of any shape
  ParameterPort::Reply reply;
  uint64_t epoch = 0;
  size_t open = 0;  // slices that have not answered
  caf::actor_clock::time_point started;
  Tensor values;                    // pull, rows: the values received so far
  Codec::Kind codec = Codec::none;  // of the gradient, or of the slices that are pulled
  // pull, rows: of the newest answer, if the values begin a round of local steps.
  struct {
    int64_t steps = 0, version = 0;
    double rate_scale = 1;
  } round;
  bool whole = false;  // rows: they are taken from whole slices

  const char* name() const;
  bool sends() const { return kind == Kind::push || kind == Kind::write; }
  // Why the request does not fit the parameter. `gradient`: push and write. Indices of rows are not
  // read if one shard has them all, as that shard reads them.
  Outcome check(const ParameterRoute& route, const Gradient& gradient) const;
  // The type of the tensor that collects the answers of several slices; none if there is one
  // answer.
  TensorType collects(const ParameterRoute& route) const;
  // The codec of the request. Requires: check() passed.
  Codec codec_of(const ParameterRoute& route, const Gradient& gradient) const;
  // Makes the gradient what travels, and sets `codec`; or says why there is nothing to push.
  // Requires: a codec_of() other than none.
  Outcome code(const ParameterRoute& route, Gradient& gradient, uint64_t seed, Residuals& residuals,
               const Make& make);
  // The slices that take part. Requires: check() passed.
  std::vector<SliceShare> cut(const ParameterRoute& route, Gradient gradient) const;
  // The values of a slice that came in `codec`; undefined if they came otherwise.
  Tensor decoded(const ParameterRoute& route, Tensor pulled, const Make& make) const;
  // Requires: `pulled` has the elements that the share asked for.
  void put(const SliceShare& share, const ParameterRoute& route, const Tensor& pulled);
  // True if rows alone are asked for, not whole slices.
  bool by_rows(const ParameterRoute& route) const;
  // Gives the collected values the shape that was asked for. Throws: Error(out_of_memory).
  void finish(const ParameterRoute& route, const Make& make);

 private:
  // Selects the rows to pull from the slice; false if there are none.
  bool select_rows(const ParameterRoute& route, const SliceRoute& slice, SliceShare& share) const;
};

// [n, row...] as [n, elements of a row]. Requires: ndim >= 1.
Tensor as_rows(const Tensor& values);

}  // namespace troupe

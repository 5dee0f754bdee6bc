// The values that metrics read: integers and scores on the host, with errors that name the metric.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <cstdint>

#include "troupe/tensor.hpp"

namespace troupe {

template <class Name, class... Parts>
Error refused_by(const Name& metric, const Parts&... parts) {
  return Error(Errc::invalid_argument, metric, ": ", detail::concat(parts...));
}

template <class Name>
void require_integers(const Name& metric, const char* what, const Tensor& x) {
  if (!x.on_host() || (x.dtype() != DType::i32 && x.dtype() != DType::i64))
    throw refused_by(metric, "wants ", what, " of i32 or i64 on the host, got ", x.dtype());
}

inline int64_t integer_at(const Tensor& x, int64_t i) {
  return x.dtype() == DType::i32 ? int64_t{x.data<int32_t>()[i]} : x.data<int64_t>()[i];
}

}  // namespace troupe

// ParameterPort::push_rows() for a port without a way of its own: packs the rows into one tensor.
#include "devices/run_context.hpp"

#include "graph/base/packed_rows.hpp"
#include "graph/base/repeat_rows.hpp"

namespace troupe {

void ParameterPort::push_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                              Tensor values, Reply reply) {
  const int64_t n = indices.size();
  if (values.ndim() < 1 || !may_repeat(values.dim(0), n))
    throw Error(Errc::invalid_argument, "the gradient of ", parameter, " is ", values.dtype(),
                values.shape(), ", which is no row for each of ", n,
                " indices, nor for as many of them that come after each other");
  values = repeat_rows(values, n);
  int64_t row_size = 1;
  for (int d = 1; d < values.ndim(); ++d) row_size *= values.dim(d);
  push(parameter, at, pack_rows(row_size, indices.values<int64_t>(), values.raw(), values.dtype()),
       std::move(reply));
}

}  // namespace troupe

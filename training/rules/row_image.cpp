// Lists the records of an image.
#include "training/rules/row_image.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {

std::vector<const RowRecord*> RowImage::sorted() const {
  std::vector<const RowRecord*> out;
  const int64_t bytes = layout.record_bytes();
  int64_t left = slots;
  for (const Tensor& block : blocks) {
    const char* at = static_cast<const char*>(block.raw());
    for (const char* const end = at + block.size(); left > 0 && at + bytes <= end; at += bytes) {
      const auto* const record = reinterpret_cast<const RowRecord*>(at);
      if (record->row != RowRecord::kFree) out.push_back(record);
      --left;
    }
  }
  std::sort(out.begin(), out.end(),
            [](const RowRecord* a, const RowRecord* b) { return a->row < b->row; });
  return out;
}

char* RowImage::add(int64_t more) {
  blocks.push_back(Tensor::zeros(DType::u8, Shape{more * layout.record_bytes()}));
  slots += more;
  return static_cast<char*>(blocks.back().mutable_raw());
}

bool same_rows(const RowImage& a, const RowImage& b) {
  const auto bytes = static_cast<size_t>(a.layout.record_bytes());
  const auto left = a.sorted(), right = b.sorted();
  return a.layout.accumulators == b.layout.accumulators && a.layout.width == b.layout.width &&
         a.layout.dtype == b.layout.dtype &&
         std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [bytes](const RowRecord* x, const RowRecord* y) {
                      return std::memcmp(x, y, bytes) == 0;
                    });
}

}  // namespace troupe

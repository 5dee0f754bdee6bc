// CRC-32C (Castagnoli, RFC 3720), using the SSE 4.2 instruction if the machine has it.
// Owner: none, functions only. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe {

// The CRC of `bytes`, continued from `before`, the CRC of the preceding bytes (0 if there are
// none).
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
// The portable table version; crc32c() uses it on machines without the instruction.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace troupe

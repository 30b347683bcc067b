// Shared by the instruction sets with vectors, after their own DecodeRounds.

namespace {

/// DecodeRounds<n> decodes rounds of 8 n lanes.
QUARRY_KERNEL bool DecodeRans(entropy::RansReader* reader, const std::uint8_t* tables, std::size_t count,
                              std::uint8_t* symbols) {
  switch (reader->lanes) {
    case entropy::kMostLanes:
      return DecodeRounds<8>(reader, tables, count, symbols);
    case entropy::kManyLanes:
      return DecodeRounds<4>(reader, tables, count, symbols);
    case entropy::kFewLanes:
      return DecodeRounds<1>(reader, tables, count, symbols);
    default:
      return DecodeRansScalar(reader, tables, 0, count, symbols);
  }
}

}  // namespace

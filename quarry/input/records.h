#pragma once

#include "quarry/input/dense.h"

/// Records of Fortran's sequential unformatted files: before and behind each, a mark says how many bytes it
/// has.
/// @source GNU Fortran manual, "File format of unformatted sequential files"
namespace quarry::input::internal {

/// Where samples lie in records.
struct RecordPlaces {
  std::vector<Segment> segments;
  std::uint64_t end = 0;  ///< end of the last record in the file
};

/// Finds the records that hold an array: one, or one for each run of whole rows.
/// @param offset     of the mark of the first record
/// @param bytes      of the array
/// @param row_bytes  of a row; every record holds whole rows
/// @errors kInvalidArgument: there are no such records from there on, with the place and what the marks say
Result<RecordPlaces> FindRecords(const RandomAccessFile& file, std::uint64_t offset, std::uint64_t bytes,
                                 std::uint64_t row_bytes, bool big_endian);

}  // namespace quarry::input::internal

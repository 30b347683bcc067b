#include "quarry/input/records.h"

#include <bit>

namespace quarry::input::internal {
namespace {

/// Reads the records of a file whose marks have `Mark`'s size, one after the other.
template <typename Mark>
class RecordReader {
 public:
  RecordReader(const RandomAccessFile& file, bool big_endian, std::uint64_t offset)
      : file_(file), swap_(big_endian != (std::endian::native == std::endian::big)), at_(offset) {}

  /// Whether the marks of the first record belong together.
  bool found_any() const { return found_any_; }

  Result<RecordPlaces> Find(std::uint64_t bytes, std::uint64_t row_bytes) {
    RecordPlaces places;
    std::uint64_t found = 0;
    while (found < bytes) {
      const std::uint64_t begin = at_;
      const std::uint64_t before = found;
      QUARRY_RETURN_IF_ERROR(ReadRecord(&places, &found));
      found_any_ = true;
      if (found > bytes) {
        return InvalidArgument("the record at byte {} has {} bytes, more than the {} that are left of {}",
                               begin, found - before, bytes - before, bytes);
      }
      if (found == before || (found - before) % row_bytes != 0) {
        return InvalidArgument("the record at byte {} has {} bytes, not a multiple of the rows of {}", begin,
                               found - before, row_bytes);
      }
    }
    places.end = at_;
    return places;
  }

 private:
  Result<std::int64_t> ReadMark(std::uint64_t at) const {
    if (at > file_.size() || file_.size() - at < sizeof(Mark))
      return InvalidArgument("there is no mark of a record at byte {}; the file has {}", at, file_.size());
    Bytes bytes(sizeof(Mark));
    QUARRY_RETURN_IF_ERROR(file_.ReadAt(at, bytes));
    Mark mark = 0;
    std::memcpy(&mark, bytes.data(), sizeof(mark));
    return std::int64_t{swap_ ? ByteSwapped(mark) : mark};
  }

  /// One record, which may have several parts: the mark before a part is negative if another one follows, the
  /// mark behind it if one came before.
  Status ReadRecord(RecordPlaces* places, std::uint64_t* found) {
    for (bool first = true, more = true; more; first = false) {
      QUARRY_ASSIGN_OR_RETURN(const std::int64_t mark, ReadMark(at_));
      more = mark < 0;
      const std::uint64_t length =
          more ? std::uint64_t{0} - static_cast<std::uint64_t>(mark) : static_cast<std::uint64_t>(mark);
      const std::uint64_t begin = at_ + sizeof(Mark);
      if (begin > file_.size() || length > file_.size() - begin) {
        return InvalidArgument("the mark at byte {} says that a record of {} bytes follows; the file has {}",
                               at_, length, file_.size());
      }
      QUARRY_ASSIGN_OR_RETURN(const std::int64_t behind, ReadMark(begin + length));
      if (behind != (first ? static_cast<std::int64_t>(length) : -static_cast<std::int64_t>(length))) {
        return InvalidArgument("the mark before the record at byte {} says {}, and that behind it {}", at_,
                               mark, behind);
      }
      if (length > 0) places->segments.push_back({*found, begin});
      *found += length;
      at_ = begin + length + sizeof(Mark);
    }
    return Status::Ok();
  }

  const RandomAccessFile& file_;
  bool swap_;
  std::uint64_t at_;
  bool found_any_ = false;
};

}  // namespace

Result<RecordPlaces> FindRecords(const RandomAccessFile& file, std::uint64_t offset, std::uint64_t bytes,
                                 std::uint64_t row_bytes, bool big_endian) {
  RecordReader<std::int32_t> narrow(file, big_endian, offset);
  Result<RecordPlaces> places = narrow.Find(bytes, row_bytes);
  if (places.ok()) return places;
  RecordReader<std::int64_t> wide(file, big_endian, offset);
  Result<RecordPlaces> wide_places = wide.Find(bytes, row_bytes);
  return wide_places.ok() || (wide.found_any() && !narrow.found_any()) ? std::move(wide_places)
                                                                       : std::move(places);
}

}  // namespace quarry::input::internal

#include "quarry/input/netcdf_classic.h"

#include <vector>

namespace quarry::input::internal {
namespace {

/// Walks over the header, reading more of the file when needed. After an error every number is 0.
class HeaderReader {
 public:
  explicit HeaderReader(const RandomAccessFile& file) : file_(file) {}

  std::uint64_t Number(std::size_t bytes) {
    const std::byte* next = Take(bytes);
    std::uint64_t value = 0;
    for (std::size_t i = 0; next != nullptr && i < bytes; ++i)
      value = value << 8 | std::to_integer<std::uint64_t>(next[i]);
    return value;
  }
  std::string Text(std::uint64_t length) {
    const std::byte* next = Take(Padded(length));
    return next == nullptr ? "" : std::string(reinterpret_cast<const char*>(next), length);
  }
  void Skip(std::uint64_t bytes) { Take(bytes); }
  void Fail() { ok_ = false; }

  bool ok() const { return ok_; }
  std::uint64_t position() const { return position_; }

  /// All parts are padded to multiples of four bytes.
  static std::uint64_t Padded(std::uint64_t bytes) { return bytes > kLimit ? bytes : (bytes + 3) / 4 * 4; }

 private:
  static constexpr std::uint64_t kLimit = std::uint64_t{256} << 20;

  const std::byte* Take(std::uint64_t bytes) {
    ok_ = ok_ && bytes <= kLimit && position_ + bytes <= std::min(file_.size(), kLimit);
    if (ok_ && position_ + bytes > buffer_.size()) {
      const std::size_t known = buffer_.size();
      const std::uint64_t wanted = std::max(position_ + bytes, std::uint64_t{known} * 2 + 65536);
      buffer_.resize(static_cast<std::size_t>(std::min(file_.size(), wanted)));
      ok_ = file_.ReadAt(known, std::span(buffer_).subspan(known)).ok();
    }
    if (!ok_) return nullptr;
    position_ += bytes;
    return buffer_.data() + position_ - bytes;
  }

  const RandomAccessFile& file_;
  Bytes buffer_;
  std::uint64_t position_ = 0;
  bool ok_ = true;
};

std::uint64_t TypeSize(std::uint64_t type) {
  constexpr std::array<std::uint64_t, 12> kSizes = {0, 1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8};
  return type < kSizes.size() ? kSizes[type] : 0;
}

struct ClassicVariable {
  std::string name;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;  ///< bytes of one record, or of the whole variable
  bool record = false;
};

struct Widths {
  std::size_t count = 4;   ///< bytes of a count
  std::size_t offset = 4;  ///< bytes of an offset
};

void SkipAttributes(HeaderReader* reader, const Widths& width) {
  reader->Skip(4);
  const std::uint64_t count = reader->Number(width.count);
  for (std::uint64_t i = 0; i < count && reader->ok(); ++i) {
    reader->Text(reader->Number(width.count));
    const std::uint64_t size = TypeSize(reader->Number(4));
    std::uint64_t bytes = 0;
    if (size == 0 || __builtin_mul_overflow(reader->Number(width.count), size, &bytes)) reader->Fail();
    reader->Skip(HeaderReader::Padded(bytes));
  }
}

std::vector<std::uint64_t> ReadDimensions(HeaderReader* reader, const Widths& width) {
  reader->Skip(4);
  const std::uint64_t count = reader->Number(width.count);
  std::vector<std::uint64_t> lengths;
  for (std::uint64_t i = 0; i < count && reader->ok(); ++i) {
    reader->Text(reader->Number(width.count));
    lengths.push_back(reader->Number(width.count));
  }
  return lengths;
}

ClassicVariable ReadVariable(HeaderReader* reader, const Widths& width,
                             const std::vector<std::uint64_t>& lengths) {
  ClassicVariable variable;
  variable.name = reader->Text(reader->Number(width.count));
  const std::uint64_t axes = reader->Number(width.count);
  variable.bytes = 1;
  for (std::uint64_t i = 0; i < axes && reader->ok(); ++i) {
    const std::uint64_t id = reader->Number(width.count);
    if (id >= lengths.size()) {
      reader->Fail();
    } else if (i == 0 && lengths[id] == 0) {
      variable.record = true;  // length 0 marks the dimension that grows
    } else if (__builtin_mul_overflow(variable.bytes, lengths[id], &variable.bytes)) {
      reader->Fail();
    }
  }
  SkipAttributes(reader, width);
  const std::uint64_t size = TypeSize(reader->Number(4));
  if (size == 0 || __builtin_mul_overflow(variable.bytes, size, &variable.bytes)) reader->Fail();
  reader->Skip(width.count);  // the size again, whose type is too small for large variables
  variable.begin = reader->Number(width.offset);
  return variable;
}

/// @param records  in the file
Result<std::map<std::string, std::uint64_t>> Ends(const std::vector<ClassicVariable>& variables,
                                                  std::uint64_t records, const std::string& path) {
  // A single record variable is not padded.
  std::uint64_t record_bytes = 0;
  std::uint64_t padded_bytes = 0;
  std::size_t of_records = 0;
  for (const ClassicVariable& variable : variables) {
    if (!variable.record) continue;
    ++of_records;
    record_bytes = variable.bytes;
    padded_bytes += variable.bytes > UINT64_MAX / 4 ? 0 : (variable.bytes + 3) / 4 * 4;
  }
  if (of_records > 1) record_bytes = padded_bytes;
  std::map<std::string, std::uint64_t> ends;
  for (const ClassicVariable& variable : variables) {
    std::uint64_t before = 0;  // bytes of the records before the last
    std::uint64_t end = 0;
    if (variable.record && records == 0) continue;
    if ((variable.record && __builtin_mul_overflow(records - 1, record_bytes, &before)) ||
        __builtin_add_overflow(variable.begin, variable.bytes, &end) ||
        __builtin_add_overflow(end, before, &end)) {
      return DataLoss("\"{}\": the header has an impossible size for variable {}; the file is damaged", path,
                      variable.name);
    }
    ends[variable.name] = end;
  }
  return ends;
}

}  // namespace

Result<std::map<std::string, std::uint64_t>> ClassicVariableEnds(const RandomAccessFile& file) {
  HeaderReader reader(file);
  const std::uint64_t magic = reader.Number(4);
  if (magic >> 8 != 0x434446) return std::map<std::string, std::uint64_t>();  // "CDF"
  const std::uint64_t version = magic & 0xff;
  const Widths width = {version == 5 ? std::size_t{8} : 4, version == 1 ? std::size_t{4} : 8};
  const std::uint64_t records = reader.Number(width.count);
  const std::vector<std::uint64_t> lengths = ReadDimensions(&reader, width);
  SkipAttributes(&reader, width);
  reader.Skip(4);
  const std::uint64_t count = reader.Number(width.count);
  std::vector<ClassicVariable> variables;
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i)
    variables.push_back(ReadVariable(&reader, width, lengths));
  if (!reader.ok()) {
    return DataLoss(
        "\"{}\" has a damaged header near offset {}, or ends there at {} bytes; fetch the file again",
        file.path(), reader.position(), file.size());
  }
  // A stream that was not closed does not know its record count: nothing to compare with.
  const bool streaming = records == (width.count == 4 ? UINT32_MAX : UINT64_MAX);
  return Ends(variables, streaming ? 0 : records, file.path());
}

}  // namespace quarry::input::internal

#include "quarry/input/vtk_legacy_reader.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <sstream>

#include "quarry/base/numbers.h"
#include "quarry/input/vtk_text.h"

namespace quarry::input::internal {
namespace {

/// A type of VTK: its bytes in a binary file, and the type of a field that it can become.
struct VtkType {
  const char* name;
  std::uint64_t bytes;
  std::optional<DataType> type;
};

const VtkType* FindType(const std::string& name) {
  static const std::array<VtkType, 14> kTypes = {{{"float", 4, DataType::kFloat32},
                                                  {"double", 8, DataType::kFloat64},
                                                  {"char", 1, DataType::kInt8},
                                                  {"signed_char", 1, DataType::kInt8},
                                                  {"unsigned_char", 1, DataType::kUint8},
                                                  {"short", 2, DataType::kInt16},
                                                  {"unsigned_short", 2, DataType::kUint16},
                                                  {"int", 4, DataType::kInt32},
                                                  {"unsigned_int", 4, DataType::kUint32},
                                                  {"long", 8, DataType::kInt64},
                                                  {"unsigned_long", 8, DataType::kUint64},
                                                  {"vtktypeint64", 8, DataType::kInt64},
                                                  {"vtktypeuint64", 8, DataType::kUint64},
                                                  {"vtkidtype", 4, std::nullopt}}};
  for (const VtkType& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

std::vector<std::string> WordsOf(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// "a%20b" -> "a b": names cannot have blanks.
std::string DecodeName(const std::string& name) {
  std::string decoded;
  for (std::size_t i = 0; i < name.size(); ++i) {
    unsigned code = 0;
    if (name[i] == '%' && i + 2 < name.size() &&
        std::from_chars(name.data() + i + 1, name.data() + i + 3, code, 16).ptr == name.data() + i + 3) {
      decoded += static_cast<char>(code);
      i += 2;
    } else {
      decoded += name[i];
    }
  }
  return decoded;
}

/// Reads the lines of the file, and steps over the numbers between them.
class LegacyReader {
 public:
  explicit LegacyReader(const RandomAccessFile& file) : file_(file) {}

  Result<LegacyContents> Read() {
    QUARRY_RETURN_IF_ERROR(ReadHeader());
    for (std::vector<std::string> words; NextWords(&words);) {
      QUARRY_RETURN_IF_ERROR(status_);
      QUARRY_RETURN_IF_ERROR(TakeLine(words));
    }
    QUARRY_RETURN_IF_ERROR(status_);
    if (contents_.dims[0] < 1) return Damaged("it has no DIMENSIONS");
    return std::move(contents_);
  }

 private:
  enum class Section { kNone, kPoints, kCells };

  template <typename... Args>
  Status Damaged(fmt::format_string<Args...> format, Args&&... args) const {
    return DataLoss("\"{}\": {}; the file is damaged, or not as VTK writes it", file_.path(),
                    fmt::format(format, std::forward<Args>(args)...));
  }

  Status ReadHeader() {
    if (!Line().starts_with("# vtk DataFile")) return Damaged("its first line is not \"# vtk DataFile\"");
    TakeTitle(Line());
    std::vector<std::string> words;
    if (!NextWords(&words)) return Damaged("it ends behind its title");
    const std::string encoding = Lower(words[0]);
    if (encoding != "ascii" && encoding != "binary")
      return Damaged("\"{}\" is neither ASCII nor BINARY", words[0]);
    contents_.ascii = encoding == "ascii";
    return Status::Ok();
  }

  /// Athena writes its time into the title: "... at time= 1.5e+00, level= 0, domain= 0".
  void TakeTitle(const std::string& title) {
    const std::size_t at = title.find("time=");
    if (at == std::string::npos) return;
    const std::vector<std::string> words = WordsOf(title.substr(at + 5));
    const std::string number = words.empty() ? "" : words[0].substr(0, words[0].find(','));
    if (double time = 0; ReadNumber(number, &time) && std::isfinite(time)) contents_.title_time = time;
  }

  Status TakeLine(const std::vector<std::string>& words) {
    const std::string key = Lower(words[0]);
    if (key == "dataset") return TakeDataset(words);
    if (key == "dimensions") return TakeDimensions(words);
    if (key == "origin") return TakeTriple(words, &contents_.origin);
    if (key == "spacing" || key == "aspect_ratio") return TakeTriple(words, &contents_.spacing);
    if (key.size() == 13 && key.ends_with("_coordinates") && key[0] >= 'x' && key[0] <= 'z')
      return TakeCoordinates(words, static_cast<std::size_t>(key[0] - 'x'));
    if (key == "point_data" || key == "cell_data") return TakeSection(words, key == "cell_data");
    if (key == "field") return TakeField(words);
    if (key == "metadata") {
      while (position_ < file_.size() && !WordsOf(Line()).empty()) continue;
      return Status::Ok();
    }
    return TakeAttribute(words, key);
  }

  Status TakeDataset(const std::vector<std::string>& words) {
    const std::string kind = words.size() < 2 ? "" : Lower(words[1]);
    contents_.rectilinear = kind == "rectilinear_grid";
    if (kind == "structured_points" || contents_.rectilinear) return Status::Ok();
    return InvalidArgument(
        "\"{}\" holds {}, which is not a regular grid; resample it and save it as .vti, as with ParaView's "
        "ResampleToImage",
        file_.path(), words.size() < 2 ? "no data set" : words[1]);
  }

  Status TakeDimensions(const std::vector<std::string>& words) {
    for (std::size_t a = 0; a < 3; ++a) {
      if (words.size() < 4 || !ReadNumber(words[a + 1], &contents_.dims[a]) || contents_.dims[a] < 1 ||
          contents_.dims[a] > (std::int64_t{1} << 31))
        return Damaged("\"{}\" is not a DIMENSIONS line", fmt::join(words, " "));
    }
    return Status::Ok();
  }

  Status TakeTriple(const std::vector<std::string>& words, std::array<double, 3>* triple) {
    for (std::size_t a = 0; a < 3; ++a) {
      if (words.size() < 4 || !ReadNumber(words[a + 1], &(*triple)[a]) || !std::isfinite((*triple)[a]))
        return Damaged("\"{}\" has no three numbers", fmt::join(words, " "));
    }
    return Status::Ok();
  }

  Status TakeCoordinates(const std::vector<std::string>& words, std::size_t axis) {
    LegacyArray array;
    if (words.size() < 3 || !ReadNumber(words[1], &array.tuples))
      return Damaged("\"{}\" has no number and type", fmt::join(words, " "));
    array.type_name = Lower(words[2]);
    QUARRY_RETURN_IF_ERROR(StepOver(&array));
    if (array.tuples != contents_.dims[axis])
      return Damaged("{} {} for {} points", array.tuples, words[0], contents_.dims[axis]);
    contents_.coordinates[axis] = array;
    return Status::Ok();
  }

  Status TakeSection(const std::vector<std::string>& words, bool of_cells) {
    section_ = of_cells ? Section::kCells : Section::kPoints;
    if (words.size() < 2 || !ReadNumber(words[1], &tuples_) || tuples_ < 0)
      return Damaged("\"{}\" has no number", fmt::join(words, " "));
    return Status::Ok();
  }

  /// Arrays behind a line FIELD: "name components tuples type" before each.
  Status TakeField(const std::vector<std::string>& words) {
    std::int64_t count = 0;
    if (words.size() < 3 || !ReadNumber(words[2], &count)) return Damaged("a FIELD without a number");
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<std::string> line;
      if (!NextWords(&line)) return Damaged("a FIELD of {} arrays ends behind {}", count, i);
      if (Lower(line[0]) == "metadata") {
        while (position_ < file_.size() && !WordsOf(Line()).empty()) continue;
        --i;
        continue;
      }
      LegacyArray array;
      if (line.size() < 4 || !ReadNumber(line[1], &array.components) || !ReadNumber(line[2], &array.tuples))
        return Damaged("\"{}\" is not an array of a FIELD", fmt::join(line, " "));
      array.name = DecodeName(line[0]);
      array.type_name = Lower(line[3]);
      QUARRY_RETURN_IF_ERROR(StepOver(&array));
      Keep(std::move(array));
    }
    return Status::Ok();
  }

  /// SCALARS, VECTORS and their like: a kind, a name, a type and, of some kinds, the number of components.
  Status TakeAttribute(const std::vector<std::string>& words, const std::string& key) {
    LegacyArray array;
    array.tuples = tuples_;
    if (words.size() < 3) return Damaged("\"{}\" is not understood", fmt::join(words, " "));
    array.name = DecodeName(words[1]);
    array.type_name = Lower(words[2]);
    bool known = true;
    if (key == "scalars") {
      known = words.size() < 4 || ReadNumber(words[3], &array.components);
      QUARRY_RETURN_IF_ERROR(SkipLookupTable());
    } else if (key == "vectors" || key == "normals") {
      array.components = 3;
    } else if (key == "tensors" || key == "tensors6") {
      array.components = key == "tensors" ? 9 : 6;
    } else if (key == "texture_coordinates") {
      known = words.size() >= 4 && ReadNumber(words[2], &array.components);
      array.type_name = known ? Lower(words[3]) : "";
    } else if (key == "color_scalars" || key == "lookup_table") {
      // Colours: bytes in binary, numbers up to 1 in text.
      known = ReadNumber(words[2], &array.components);
      if (key == "lookup_table") {
        array.tuples = array.components;
        array.components = 4;
      }
      array.type_name = contents_.ascii ? "float" : "unsigned_char";
      return known ? StepOver(&array) : Damaged("\"{}\" has no number", fmt::join(words, " "));
    } else {
      known = key == "global_ids" || key == "pedigree_ids";
    }
    if (!known) return Damaged("\"{}\" is not understood", fmt::join(words, " "));
    QUARRY_RETURN_IF_ERROR(StepOver(&array));
    Keep(std::move(array));
    return Status::Ok();
  }

  /// The line "LOOKUP_TABLE default" behind SCALARS may be missing.
  Status SkipLookupTable() {
    const std::uint64_t before = position_;
    std::vector<std::string> words;
    const bool there = contents_.ascii ? NextWords(&words) : !(words = WordsOf(Line())).empty();
    if (!there || Lower(words[0]) != "lookup_table") position_ = before;
    return status_;
  }

  void Keep(LegacyArray array) {
    if (section_ == Section::kNone) {
      const std::string name = Lower(array.name);
      if ((name == "time" || name == "timevalue") && array.tuples * array.components == 1)
        contents_.time = std::move(array);
      return;
    }
    array.of_cells = section_ == Section::kCells;
    contents_.arrays.push_back(std::move(array));
  }

  /// Finds where the numbers of an array end.
  Status StepOver(LegacyArray* array) {
    array->offset = position_;
    std::uint64_t count = 0;
    if (array->tuples < 0 || array->components < 1 ||
        __builtin_mul_overflow(static_cast<std::uint64_t>(array->tuples),
                               static_cast<std::uint64_t>(array->components), &count) ||
        count > (std::uint64_t{1} << 60))
      return Damaged("array {} has {} times {} numbers", array->name, array->tuples, array->components);
    if (array->type_name == "string" || array->type_name == "utf8_string") return StepOverStrings(count);
    const VtkType* type = FindType(array->type_name);
    if (type == nullptr && array->type_name != "bit")
      return Damaged("array {} has the unknown type \"{}\"", array->name, array->type_name);
    if (type != nullptr) array->type = type->type;
    if (contents_.ascii) {
      QUARRY_RETURN_IF_ERROR(StepOverWords(count, array->name));
    } else {
      const std::uint64_t bytes = type == nullptr ? (count + 7) / 8 : count * type->bytes;
      if (bytes > file_.size() - position_)
        return Damaged("array {} has {} bytes, of which the file holds {}", array->name, bytes,
                       file_.size() - position_);
      position_ += bytes;
    }
    array->length = position_ - array->offset;
    return Status::Ok();
  }

  Status StepOverWords(std::uint64_t count, const std::string& name) {
    bool inside = false;
    for (std::uint64_t found = 0; position_ < file_.size(); ++position_) {
      const char c = At(position_);
      const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
      if (!blank && !inside && found == count) return status_;
      if (!blank && !inside) ++found;
      inside = !blank;
      if (position_ + 1 == file_.size() && found < count)
        return Damaged("array {} has {} numbers, and should have {}", name, found, count);
    }
    return status_;
  }

  /// In text a line for each; in binary the length before each, whose first two bits say how long it is.
  Status StepOverStrings(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (position_ >= file_.size()) return Damaged("an array of texts ends behind {}", i);
      if (contents_.ascii) {
        Line();
        continue;
      }
      const auto first = static_cast<unsigned char>(At(position_));
      const int more = first >> 6 == 3 ? 0 : first >> 6 == 2 ? 1 : first >> 6 == 1 ? 3 : 7;
      std::uint64_t length = first & 0x3f;
      for (int k = 1; k <= more; ++k)
        length = length << 8 | static_cast<unsigned char>(At(position_ + static_cast<std::uint64_t>(k)));
      const std::uint64_t left = file_.size() - position_;
      if (length > left || length + static_cast<std::uint64_t>(more) + 1 > left)
        return Damaged("a text of {} bytes is missing", length);
      position_ += length + static_cast<std::uint64_t>(more) + 1;
    }
    return Status::Ok();
  }

  /// The words of the next line that has any. @returns false at the end of the file
  bool NextWords(std::vector<std::string>* words) {
    while (position_ < file_.size()) {
      *words = WordsOf(Line());
      if (!words->empty()) return true;
    }
    return false;
  }

  /// Reads a line, and keeps at most its beginning.
  std::string Line() {
    std::string line;
    constexpr std::size_t kLongest = 4096;
    while (position_ < file_.size()) {
      const char c = At(position_++);
      if (c == '\n') break;
      if (line.size() < kLongest) line += c;
    }
    return line;
  }

  /// The character at a place; a blank behind the end and after an error.
  char At(std::uint64_t at) {
    if (at < begin_ || at >= begin_ + buffer_.size()) {
      begin_ = at;
      buffer_.resize(static_cast<std::size_t>(
          std::min<std::uint64_t>(std::size_t{1} << 18, at < file_.size() ? file_.size() - at : 0)));
      if (!buffer_.empty() && status_.ok()) status_ = file_.ReadAt(at, buffer_);
      if (!status_.ok()) std::fill(buffer_.begin(), buffer_.end(), std::byte{' '});
      if (buffer_.empty()) return ' ';
    }
    return static_cast<char>(buffer_[static_cast<std::size_t>(at - begin_)]);
  }

  const RandomAccessFile& file_;
  LegacyContents contents_;
  Section section_ = Section::kNone;
  std::int64_t tuples_ = 0;  ///< tuples of arrays in this section
  std::uint64_t position_ = 0;
  std::uint64_t begin_ = 0;  ///< begin of the buffer
  Bytes buffer_;
  Status status_;
};

}  // namespace

Result<LegacyContents> ReadLegacy(const RandomAccessFile& file) { return LegacyReader(file).Read(); }

}  // namespace quarry::input::internal

#include "quarry/input/vtk_text.h"

#include <algorithm>

#include "quarry/base/numbers.h"

namespace quarry::input::internal {
namespace {

bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class MarkupReader {
 public:
  explicit MarkupReader(const RandomAccessFile& file) : file_(file) {}

  Result<Markup> Read() {
    Bytes block(std::size_t{1} << 20);
    for (std::uint64_t offset = 0; offset < file_.size() && !done_; offset += block.size()) {
      const auto bytes =
          static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), file_.size() - offset));
      QUARRY_RETURN_IF_ERROR(file_.ReadAt(offset, std::span(block).first(bytes)));
      for (std::size_t i = 0; i < bytes && !done_; ++i) Take(static_cast<char>(block[i]), offset + i);
      constexpr std::size_t kMost = std::size_t{64} << 20;
      if (markup_.xml.size() > kMost)
        return DataLoss("\"{}\" has more than {} bytes of tags; it is damaged, or not a VTK file",
                        file_.path(), kMost);
    }
    return std::move(markup_);
  }

 private:
  enum class State { kText, kTag, kQuoted, kAppended };

  void Take(char c, std::uint64_t at) {
    switch (state_) {
      case State::kText:
        TakeText(c, at);
        break;
      case State::kTag:
        markup_.xml += c;
        if (InsideComment()) break;
        if (c == '"' || c == '\'') {
          quote_ = c;
          state_ = State::kQuoted;
        } else if (c == '>') {
          state_ =
              Tag().starts_with("<AppendedData") && !Tag().ends_with("/>") ? State::kAppended : State::kText;
        }
        break;
      case State::kQuoted:
        markup_.xml += c;
        if (c == quote_) state_ = State::kTag;
        break;
      case State::kAppended:
        // The bytes after the underscore need not be text.
        if (c != '_') break;
        markup_.appended = at + 1;
        markup_.xml += "</AppendedData></VTKFile>";
        done_ = true;
        break;
    }
  }

  void TakeText(char c, std::uint64_t at) {
    if (c == '<') {
      if (begin_ != kNowhere) markup_.xml += fmt::format("{} {}", begin_, end_ - begin_);
      begin_ = kNowhere;
      tag_ = markup_.xml.size();
      markup_.xml += c;
      state_ = State::kTag;
    } else if (!IsBlank(c)) {
      if (begin_ == kNowhere) begin_ = at;
      end_ = at + 1;
    }
  }

  std::string_view Tag() const { return std::string_view(markup_.xml).substr(tag_); }
  bool InsideComment() const {
    return Tag().starts_with("<!--") && !(Tag().size() >= 7 && Tag().ends_with("-->"));
  }

  static constexpr std::uint64_t kNowhere = UINT64_MAX;

  const RandomAccessFile& file_;
  Markup markup_;
  State state_ = State::kText;
  std::size_t tag_ = 0;  ///< where the current tag begins in the markup
  char quote_ = '"';
  std::uint64_t begin_ = kNowhere;  ///< begin of the current text in the file
  std::uint64_t end_ = 0;
  bool done_ = false;
};

int Base64Digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

class TextInput final : public Input {
 public:
  TextInput(InputInfo info, std::shared_ptr<const RandomAccessFile> file, std::uint64_t offset,
            std::uint64_t length, std::int64_t components, std::int64_t component)
      : Input(std::move(info)),
        file_(std::move(file)),
        offset_(offset),
        length_(length),
        components_(components),
        component_(component) {}

  Status ReadBox(const Box& box, std::span<std::byte> samples) const override {
    WordReader reader(*file_, offset_, length_);
    const std::size_t size = SizeOf(info_.type);
    const Index3 shape = box.shape();
    std::int64_t next = 0;
    std::size_t done = 0;
    for (std::int64_t z = box.begin[2]; z < box.end[2]; ++z) {
      for (std::int64_t y = box.begin[1]; y < box.end[1]; ++y) {
        const std::int64_t first = box.begin[0] + info_.dims[0] * (y + info_.dims[1] * z);
        for (std::int64_t x = 0; x < shape[0]; ++x, done += size) {
          for (; next < (first + x) * components_ + component_; ++next) reader.Next();
          const std::string& text = reader.Next();
          if (!ParseSample(text, info_.type, samples.data() + done)) {
            QUARRY_RETURN_IF_ERROR(reader.status());
            return DataLoss("\"{}\": \"{}\" in the place of sample {} is not a valid {}; the file is damaged",
                            info_.path, text, first + x, Name(info_.type));
          }
          ++next;
        }
      }
    }
    return reader.status();
  }

 private:
  std::shared_ptr<const RandomAccessFile> file_;
  std::uint64_t offset_;
  std::uint64_t length_;
  std::int64_t components_;
  std::int64_t component_;
};

/// The choice of --index component=K.
const IndexChoice* FindChoice(const InputOptions& options) {
  const auto found = std::ranges::find(options.index, "component", &IndexChoice::axis);
  return found == options.index.end() ? nullptr : &*found;
}

/// The components of an array that the user has chosen with --index component=K, or the only one.
/// @errors kInvalidArgument: none was chosen of several, or one that the array does not have
Result<std::vector<std::int64_t>> ChooseComponents(const InputOptions& options, const std::string& path,
                                                   std::int64_t components) {
  for (const IndexChoice& choice : options.index) {
    if (components > 1 && choice.axis == "component") continue;
    return InvalidArgument("\"{}\" has no axis \"{}\" to choose from{}; leave --index {}={} out", path,
                           choice.axis, components > 1 ? ", only \"component\"" : "", choice.axis,
                           choice.begin);
  }
  if (components == 1) return std::vector<std::int64_t>{0};
  const IndexChoice* choice = FindChoice(options);
  if (choice == nullptr)
    return InvalidArgument("\"{}\" has {}", path, ObstacleOfComponents(options, components));
  if (choice->begin < 0 || choice->begin >= choice->end || choice->end > components) {
    return InvalidArgument(
        "\"{}\" has components 0 to {}, not {}", path, components - 1,
        choice->is_range ? fmt::format("{}:{}", choice->begin, choice->end) : fmt::to_string(choice->begin));
  }
  std::vector<std::int64_t> chosen;
  for (std::int64_t k = choice->begin; k < choice->end; ++k) chosen.push_back(k);
  return chosen;
}

}  // namespace

Result<Markup> ReadMarkup(const RandomAccessFile& file) { return MarkupReader(file).Read(); }

bool DecodeBase64(std::string_view text, Bytes* out) {
  if (text.size() % 4 != 0) return false;
  out->clear();
  out->reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const std::string_view group = text.substr(i, 4);
    const std::size_t padding = group.ends_with("==") ? 2 : group.ends_with("=") ? 1 : 0;
    unsigned bits = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const int digit = k < 4 - padding ? Base64Digit(group[k]) : 0;
      if (digit < 0) return false;
      bits = bits << 6 | static_cast<unsigned>(digit);
    }
    for (std::size_t k = 0; k < 3 - padding; ++k)
      out->push_back(static_cast<std::byte>(bits >> (16 - 8 * k)));
    // Padding ends a stretch: the next characters belong to another one.
    if (padding != 0) return true;
  }
  return true;
}

Status ByteSource::ReadAt(std::uint64_t position, std::span<std::byte> out) const {
  position += skipped_;
  if (!base64_) return file_->ReadAt(begin_ + position, out);
  constexpr std::size_t kPiece = std::size_t{3} << 18;
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t bytes = std::min(kPiece, out.size() - done);
    QUARRY_RETURN_IF_ERROR(ReadPiece(position + done, out.subspan(done, bytes)));
    done += bytes;
  }
  return Status::Ok();
}

/// Three bytes are four characters.
Status ByteSource::ReadPiece(std::uint64_t position, std::span<std::byte> out) const {
  const std::uint64_t first = position / 3;
  const std::uint64_t end = (position + out.size() + 2) / 3;
  Bytes text(static_cast<std::size_t>((end - first) * 4));
  QUARRY_RETURN_IF_ERROR(file_->ReadAt(begin_ + first * 4, text));
  Bytes decoded;
  const auto inside = static_cast<std::size_t>(position - first * 3);
  if (!DecodeBase64(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()), &decoded) ||
      decoded.size() < inside + out.size()) {
    return DataLoss("\"{}\" has no valid base64 text at offset {}; fetch the file again", file_->path(),
                    begin_ + first * 4);
  }
  std::memcpy(out.data(), decoded.data() + inside, out.size());
  return Status::Ok();
}

ByteSource ByteSource::Behind(std::uint64_t bytes) const {
  return {*file_, begin_ + (base64_ ? (bytes + 2) / 3 * 4 : bytes), base64_};
}

ByteSource ByteSource::Skipping(std::uint64_t bytes) const {
  ByteSource source = *this;
  source.skipped_ += bytes;
  return source;
}

Result<bool> ByteSource::EndsPadded(std::uint64_t bytes) const {
  if (!base64_) return false;
  Bytes last(1);
  QUARRY_RETURN_IF_ERROR(file_->ReadAt(begin_ + (bytes + 2) / 3 * 4 - 1, last));
  return last[0] == std::byte{'='};
}

char WordReader::Get() {
  if (used_ == buffer_.size()) {
    buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(std::size_t{1} << 20, end_ - next_)));
    used_ = 0;
    if (!buffer_.empty()) status_ = file_.ReadAt(next_, buffer_);
    next_ += buffer_.size();
    if (!status_.ok()) buffer_.clear();
    if (buffer_.empty()) {
      next_ = end_;
      return ' ';
    }
  }
  return static_cast<char>(buffer_[used_++]);
}

const std::string& WordReader::Next() {
  word_.clear();
  char c = ' ';
  do {
    c = Get();
  } while (IsBlank(c) && (used_ < buffer_.size() || next_ < end_));
  constexpr std::size_t kLongest = 100;  // longer than any number
  for (; !IsBlank(c) && word_.size() < kLongest; c = Get()) word_ += c;
  return word_;
}

std::unique_ptr<Input> MakeTextInput(InputInfo info, std::shared_ptr<const RandomAccessFile> file,
                                     std::uint64_t offset, std::uint64_t length, std::int64_t components,
                                     std::int64_t component) {
  return std::make_unique<TextInput>(std::move(info), std::move(file), offset, length, components, component);
}

Result<std::vector<double>> NumbersIn(const Input& input) {
  QUARRY_ASSIGN_OR_RETURN(const Bytes bytes, ReadBox(input, {{0, 0, 0}, input.info().dims}));
  std::vector<double> numbers;
  DispatchType(input.info().type, [&](auto value) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(value)) {
      std::memcpy(&value, bytes.data() + i, sizeof(value));
      numbers.push_back(static_cast<double>(value));
    }
  });
  return numbers;
}

Result<Inputs> OpenComponents(
    const InputOptions& options, const InputInfo& info, std::int64_t components,
    const std::function<Result<std::unique_ptr<Input>>(InputInfo, std::int64_t component)>& open) {
  QUARRY_ASSIGN_OR_RETURN(const std::vector<std::int64_t> chosen,
                          ChooseComponents(options, info.path, components));
  Inputs inputs;
  for (const std::int64_t component : chosen) {
    InputInfo of_component = info;
    if (chosen.size() > 1) {
      of_component.field += fmt::format("_{}", component);
      of_component.source += fmt::format(" component={}", component);
    }
    QUARRY_ASSIGN_OR_RETURN(inputs.emplace_back(), open(std::move(of_component), component));
  }
  return inputs;
}

std::string ObstacleOfComponents(const InputOptions& options, std::int64_t components) {
  if (components == 1 || FindChoice(options) != nullptr) return "";
  return fmt::format(
      "{} components; choose one with --index component=0, or make fields of several with --index "
      "component=0:{}",
      components, components);
}

void PlaceVtkAxis(std::vector<double> points, std::optional<DataType> stored, bool between, std::size_t axis,
                  InputInfo* info) {
  if (between) {
    for (std::size_t i = 0; i + 1 < points.size(); ++i) points[i] = 0.5 * (points[i] + points[i + 1]);
    points.pop_back();
  }
  PlaceAxis(points, stored, &info->axes[axis]);
  if (info->axes[axis].origin) return;
  info->warnings.push_back(fmt::format(
      "the positions along {} are not finite, or neither ascend nor descend; its samples lie at 0, 1, 2, ...",
      kAxisNames[axis]));
}

bool ParseSample(std::string_view text, DataType type, std::byte* sample) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return DispatchType(type, [&](auto value) {
    if (!ReadNumber(text, &value)) {
      // Numbers too small or too large for float32 are still numbers.
      double wide = 0;
      if (!IsFloat(type) || !ReadNumber(text, &wide)) return false;
      value = static_cast<decltype(value)>(wide);
    }
    std::memcpy(sample, &value, sizeof(value));
    return true;
  });
}

}  // namespace quarry::input::internal

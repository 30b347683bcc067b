#include "quarry/input/vtk_array.h"

#include <zlib.h>

#include <algorithm>
#include <optional>

#include "quarry/input/vtk_text.h"

namespace quarry::input::internal {
namespace {

class EncodedInput final : public Input {
 public:
  EncodedInput(InputInfo info, std::shared_ptr<const RandomAccessFile> file, const Encoding& encoding)
      : Input(std::move(info)), file_(std::move(file)), encoding_(encoding) {}

  /// Finds where the samples begin, and checks that there are as many bytes as the extent needs.
  Status Prepare() {
    QUARRY_ASSIGN_OR_RETURN(bytes_, BytesOf(info_));
    if (__builtin_mul_overflow(bytes_, static_cast<std::uint64_t>(encoding_.layout.components), &bytes_) ||
        bytes_ > UINT64_MAX / 2)
      return WrongSize(0);
    // Memory is taken for samples that can be there: zlib makes at most 1032 bytes out of one.
    if (bytes_ / 1032 > file_->size()) return WrongSize(file_->size());
    if (encoding_.ascii) return Status::Ok();
    const ByteSource start(*file_, encoding_.offset, encoding_.base64);
    return encoding_.compressed ? PrepareBlocks(start) : PreparePlain(start);
  }

  /// Neighbouring rows and planes come in one read, so that every block of compressed samples is decompressed
  /// once.
  Status ReadBox(const Box& box, std::span<std::byte> samples) const override {
    LastBlock last;
    return ReadDense(
        info_, encoding_.layout, box, samples, [&](std::uint64_t position, std::span<std::byte> out) {
          Status status =
              encoding_.compressed ? ReadBlocks(position, out, &last) : data_->ReadAt(position, out);
          return std::move(status).Annotate(info_.path);
        });
  }

 private:
  /// The last decompressed block, for the next read.
  struct LastBlock {
    Bytes bytes;
    std::size_t number = SIZE_MAX;
  };

  std::uint64_t HeaderNumber(const std::byte* bytes) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < encoding_.header_bytes; ++i) {
      const std::size_t at = encoding_.layout.big_endian ? i : encoding_.header_bytes - 1 - i;
      value = value << 8 | std::to_integer<std::uint64_t>(bytes[at]);
    }
    return value;
  }

  Status WrongSize(std::uint64_t bytes) const {
    return DataLoss("\"{}\" holds {} bytes, but {} samples of {} need {}; the file is damaged", info_.path,
                    bytes, ToString(info_.dims), Name(info_.type), bytes_);
  }

  Status PreparePlain(const ByteSource& start) {
    Bytes header(encoding_.header_bytes);
    QUARRY_RETURN_IF_ERROR(start.ReadAt(0, header));
    if (HeaderNumber(header.data()) != bytes_) return WrongSize(HeaderNumber(header.data()));
    // Some writers encode the header separately, others together with the samples.
    QUARRY_ASSIGN_OR_RETURN(const bool apart, start.EndsPadded(header.size()));
    data_ = apart ? start.Behind(header.size()) : start.Skipping(header.size());
    Bytes last(1);
    return data_->ReadAt(bytes_ - 1, last).Annotate("the end of the samples is missing");
  }

  Status PrepareBlocks(const ByteSource& start) {
    const std::size_t n = encoding_.header_bytes;
    Bytes header(3 * n);
    QUARRY_RETURN_IF_ERROR(start.ReadAt(0, header));
    const std::uint64_t count = HeaderNumber(header.data());
    block_bytes_ = HeaderNumber(header.data() + n);
    const std::uint64_t last = HeaderNumber(header.data() + 2 * n);  // 0: the last block is a full one
    // Every block takes a number in the header: an impossible count is noticed before memory is taken.
    if (count > file_->size() / n || (count > 0 && block_bytes_ == 0) || last > block_bytes_ ||
        block_bytes_ > bytes_ + 1 + (std::uint64_t{1} << 26)) {
      return WrongSize(count);
    }
    std::uint64_t total = 0;
    if (__builtin_mul_overflow(count, block_bytes_, &total)) return WrongSize(count);
    if (last != 0) total -= block_bytes_ - last;
    if (total != bytes_) return WrongSize(total);
    Bytes sizes(static_cast<std::size_t>(count) * n);
    QUARRY_RETURN_IF_ERROR(start.ReadAt(3 * n, sizes));
    offsets_ = {0};
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t size = HeaderNumber(sizes.data() + i * n);
      if (size > file_->size()) return WrongSize(size);
      offsets_.push_back(offsets_.back() + size);
    }
    data_ = start.Behind((3 + count) * n);
    return Status::Ok();
  }

  Status ReadBlocks(std::uint64_t first, std::span<std::byte> out, LastBlock* last) const {
    for (std::size_t done = 0; done < out.size();) {
      const std::uint64_t at = first + done;
      const auto wanted = static_cast<std::size_t>(at / block_bytes_);
      if (last->number != wanted) {
        QUARRY_RETURN_IF_ERROR(Decompress(wanted, &last->bytes));
        last->number = wanted;
      }
      const auto inside = static_cast<std::size_t>(at % block_bytes_);
      const std::size_t bytes = std::min(out.size() - done, last->bytes.size() - inside);
      std::memcpy(out.data() + done, last->bytes.data() + inside, bytes);
      done += bytes;
    }
    return Status::Ok();
  }

  Status Decompress(std::size_t number, Bytes* block) const {
    Bytes packed(static_cast<std::size_t>(offsets_[number + 1] - offsets_[number]));
    QUARRY_RETURN_IF_ERROR(data_->ReadAt(offsets_[number], packed));
    const std::uint64_t begin = number * block_bytes_;
    const std::uint64_t unpacked = std::min(block_bytes_, bytes_ - begin);
    // Checked before memory is taken: zlib makes at most 1032 bytes out of one.
    if (unpacked / 1032 > packed.size()) {
      return DataLoss(
          "block {} has {} bytes, which cannot hold the {} that the header says; fetch the file again",
          number, packed.size(), unpacked);
    }
    block->resize(static_cast<std::size_t>(unpacked));
    uLongf length = static_cast<uLongf>(block->size());
    const int error =
        uncompress(reinterpret_cast<Bytef*>(block->data()), &length,
                   reinterpret_cast<const Bytef*>(packed.data()), static_cast<uLong>(packed.size()));
    // The output must fill the block: the header states its size.
    if (error == Z_OK && length == block->size()) return Status::Ok();
    return DataLoss("block {} cannot be decompressed (zlib says {}); fetch the file again", number, error);
  }

  std::shared_ptr<const RandomAccessFile> file_;
  Encoding encoding_;
  std::uint64_t bytes_ = 0;  ///< size of all samples
  std::optional<ByteSource> data_;
  // Samples in blocks of zlib: their places in the source after the header.
  std::uint64_t block_bytes_ = 0;       ///< bytes of a block before compression; the last may be shorter
  std::vector<std::uint64_t> offsets_;  ///< one more than blocks
};

}  // namespace

Result<std::unique_ptr<Input>> OpenVtkArray(InputInfo info, const Encoding& encoding) {
  QUARRY_ASSIGN_OR_RETURN(std::shared_ptr<const RandomAccessFile> file, OpenShared(info.path));
  auto input = std::make_unique<EncodedInput>(info, file, encoding);
  QUARRY_RETURN_IF_ERROR(input->Prepare().Annotate(info.path));
  if (!encoding.ascii) return std::unique_ptr<Input>(std::move(input));
  return MakeTextInput(std::move(info), std::move(file), encoding.offset, encoding.length,
                       encoding.layout.components, encoding.layout.component);
}

}  // namespace quarry::input::internal

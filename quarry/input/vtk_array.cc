#include "quarry/input/vtk_array.h"

#include <zlib.h>

#include <algorithm>
#include <bit>

#include "quarry/input/dense.h"

namespace quarry::input::internal {

Status ArrayReader::Prepare() {
  QUARRY_ASSIGN_OR_RETURN(bytes_, BytesOf(info_));
  if (__builtin_mul_overflow(bytes_, static_cast<std::uint64_t>(encoding_.components), &bytes_) ||
      bytes_ > UINT64_MAX / 2)
    return WrongSize(0);
  // Memory is taken for samples that can be there: zlib makes at most 1032 bytes out of one.
  if (bytes_ / 1032 > file_.size()) return WrongSize(file_.size());
  if (encoding_.ascii) return Status::Ok();
  const ByteSource start(file_, encoding_.offset, encoding_.base64);
  return encoding_.compressed ? PrepareBlocks(start) : PreparePlain(start);
}

Status ArrayReader::ReadBox(const Box& box, std::span<std::byte> samples) const {
  if (encoding_.ascii) {
    return ReadTextSamples(WordReader(file_, encoding_.offset, encoding_.length), info_, encoding_.components,
                           encoding_.component, box, samples);
  }
  const std::size_t size = SizeOf(info_.type);
  const Index3 shape = box.shape();
  const bool whole_rows = shape[0] == info_.dims[0];
  const bool whole_planes = whole_rows && shape[1] == info_.dims[1];
  // Neighbouring rows and planes in one read, so that every block of compressed samples is decompressed
  // once.
  const Index3 run = {shape[0], whole_rows ? shape[1] : 1, whole_planes ? shape[2] : 1};
  const std::size_t run_bytes = static_cast<std::size_t>(Volume(run)) * size;
  std::size_t done = 0;
  LastBlock last;
  for (std::int64_t z = box.begin[2]; z < box.end[2]; z += run[2]) {
    for (std::int64_t y = box.begin[1]; y < box.end[1]; y += run[1]) {
      const std::int64_t first = box.begin[0] + info_.dims[0] * (y + info_.dims[1] * z);
      Status status = ReadRun(static_cast<std::uint64_t>(first), samples.subspan(done, run_bytes), &last);
      if (!status.ok()) return std::move(status).Annotate(info_.path);
      done += run_bytes;
    }
  }
  if (encoding_.big_endian != (std::endian::native == std::endian::big)) SwapBytes(samples, size);
  return Status::Ok();
}

/// Samples from number `first` on.
Status ArrayReader::ReadRun(std::uint64_t first, std::span<std::byte> out, LastBlock* last) const {
  return ReadComponent(
      encoding_.components, encoding_.component, SizeOf(info_.type), first, out,
      [&](std::uint64_t position, std::span<std::byte> bytes) { return ReadBytes(position, bytes, last); });
}

Status ArrayReader::ReadBytes(std::uint64_t first, std::span<std::byte> out, LastBlock* last) const {
  return encoding_.compressed ? ReadBlocks(first, out, &last->bytes, &last->number)
                              : data_->ReadAt(first, out);
}

std::uint64_t ArrayReader::HeaderNumber(const std::byte* bytes) const {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < encoding_.header_bytes; ++i) {
    const std::size_t at = encoding_.big_endian ? i : encoding_.header_bytes - 1 - i;
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[at]);
  }
  return value;
}

Status ArrayReader::WrongSize(std::uint64_t bytes) const {
  return DataLoss("\"{}\" holds {} bytes, but {} samples of {} need {}; the file is damaged", info_.path,
                  bytes, ToString(info_.dims), Name(info_.type), bytes_);
}

Status ArrayReader::PreparePlain(const ByteSource& start) {
  Bytes header(encoding_.header_bytes);
  QUARRY_RETURN_IF_ERROR(start.ReadAt(0, header));
  if (HeaderNumber(header.data()) != bytes_) return WrongSize(HeaderNumber(header.data()));
  // Some writers encode the header separately, others together with the samples.
  QUARRY_ASSIGN_OR_RETURN(const bool apart, start.EndsPadded(header.size()));
  data_ = apart ? start.Behind(header.size()) : start.Skipping(header.size());
  Bytes last(1);
  return data_->ReadAt(bytes_ - 1, last).Annotate("the end of the samples is missing");
}

Status ArrayReader::PrepareBlocks(const ByteSource& start) {
  const std::size_t n = encoding_.header_bytes;
  Bytes header(3 * n);
  QUARRY_RETURN_IF_ERROR(start.ReadAt(0, header));
  const std::uint64_t count = HeaderNumber(header.data());
  blocks_.block_bytes = HeaderNumber(header.data() + n);
  const std::uint64_t last = HeaderNumber(header.data() + 2 * n);  // 0: the last block is a full one
  // Every block takes a number in the header: an impossible count is noticed before memory is taken.
  if (count > file_.size() / n || (count > 0 && blocks_.block_bytes == 0) || last > blocks_.block_bytes ||
      blocks_.block_bytes > bytes_ + 1 + (std::uint64_t{1} << 26)) {
    return WrongSize(count);
  }
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(count, blocks_.block_bytes, &total)) return WrongSize(count);
  if (last != 0) total -= blocks_.block_bytes - last;
  if (total != bytes_) return WrongSize(total);
  Bytes sizes(static_cast<std::size_t>(count) * n);
  QUARRY_RETURN_IF_ERROR(start.ReadAt(3 * n, sizes));
  blocks_.offsets = {0};
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t size = HeaderNumber(sizes.data() + i * n);
    if (size > file_.size()) return WrongSize(size);
    blocks_.offsets.push_back(blocks_.offsets.back() + size);
  }
  data_ = start.Behind((3 + count) * n);
  return Status::Ok();
}

/// @param block, number  the last decompressed block, for the next call
Status ArrayReader::ReadBlocks(std::uint64_t first, std::span<std::byte> out, Bytes* block,
                               std::size_t* number) const {
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t at = first + done;
    const auto wanted = static_cast<std::size_t>(at / blocks_.block_bytes);
    if (*number != wanted) {
      QUARRY_RETURN_IF_ERROR(Decompress(wanted, block));
      *number = wanted;
    }
    const auto inside = static_cast<std::size_t>(at % blocks_.block_bytes);
    const std::size_t bytes = std::min(out.size() - done, block->size() - inside);
    std::memcpy(out.data() + done, block->data() + inside, bytes);
    done += bytes;
  }
  return Status::Ok();
}

Status ArrayReader::Decompress(std::size_t number, Bytes* block) const {
  Bytes packed(static_cast<std::size_t>(blocks_.offsets[number + 1] - blocks_.offsets[number]));
  QUARRY_RETURN_IF_ERROR(data_->ReadAt(blocks_.offsets[number], packed));
  const std::uint64_t begin = number * blocks_.block_bytes;
  const std::uint64_t unpacked = std::min(blocks_.block_bytes, bytes_ - begin);
  // Checked before memory is taken: zlib makes at most 1032 bytes out of one.
  if (unpacked / 1032 > packed.size()) {
    return DataLoss(
        "block {} has {} bytes, which cannot hold the {} that the header says; fetch the file again", number,
        packed.size(), unpacked);
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

}  // namespace quarry::input::internal

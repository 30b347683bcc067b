#pragma once

#include "quarry/format/subfile.h"
#include "writer/pipeline/mail.h"
#include "writer/pipeline/own_patches.h"

/// The head of a message of the transfer: rows of its patches with the first run of parts, then only sizes
/// and checksums of the parts of the run.
namespace quarry::writer {

/// Bytes of the head of a message for each patch.
std::size_t ShippedRowSize(const PatchParts& parts, const format::PartRun& run, bool first_run);

/// Appends a patch to the head of a message.
void ShipRow(const format::PatchEntry& row, const format::PartRun& run, bool first_run, Bytes* out);

/// Patches in a message that has arrived, one after the other.
class ArrivedPatches {
 public:
  /// @param message  must outlive this; its head is intact
  ArrivedPatches(const Message& message, const PatchParts& parts, const format::PartRun& run, bool first_run)
      : head_(message.head()), body_(message.body()), parts_(parts), run_(run), first_run_(first_run) {}

  /// The next row; of a later run only sizes and checksums of its parts.
  /// @returns whether there is one, and its payload
  bool Next(format::PatchEntry* row, ByteSpan* payload);

 private:
  ByteSpan head_;
  ByteSpan body_;
  PatchParts parts_;
  format::PartRun run_;
  bool first_run_;
};

}  // namespace quarry::writer

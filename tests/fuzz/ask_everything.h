#pragma once

#include <memory>

#include "quarry/session/session.h"

namespace quarry::fuzz {

/// Asks a dataset all kinds of questions, of some of its fields and steps, as a server does: what it may take
/// is a little memory, and the fault must not be ours.
void AskEverything(std::shared_ptr<const OpenedDataset> opened, std::shared_ptr<PatchStore> store);

/// Memory for all questions.
inline constexpr std::uint64_t kAskMemory = 24 << 20;

}  // namespace quarry::fuzz

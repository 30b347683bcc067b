#include "quarry/base/cancel_scope.h"

#include <utility>

namespace quarry {
namespace {

thread_local CancelScope* innermost = nullptr;

}  // namespace

CancelScope::CancelScope(std::function<bool()> cancelled)
    : cancelled_(std::move(cancelled)), outer_(std::exchange(innermost, this)) {}

CancelScope::~CancelScope() { innermost = outer_; }

bool CancelScope::Ask() {
  const std::lock_guard lock(mutex_);
  return cancelled_();
}

bool CancelScope::Cancelled() { return innermost != nullptr && innermost->Ask(); }

std::function<bool()> CancelScope::Carried() {
  return [scope = innermost] { return scope != nullptr && scope->Ask(); };
}

}  // namespace quarry

#include "quarry/store/decode_pool.h"

// Takes the place of the pool with threads: whoever submits a task runs it.
namespace quarry {

DecodePool::DecodePool(int) : thread_count_(1), now_(0) {}
DecodePool::~DecodePool() = default;
std::size_t DecodePool::waiting() const { return 0; }
void DecodePool::Submit(DecodePriority, std::function<void()> task) { task(); }
void DecodePool::InTurn(std::uint64_t, std::uint64_t, const std::function<void()>& compute) { compute(); }

}  // namespace quarry

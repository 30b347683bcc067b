#pragma once

#include <pthread.h>

#include <memory>
#include <new>

namespace quarry {

/// An object for each thread, made at its first use there, and destroyed with the thread. For scratch memory
/// that threads use again; declare it static. A thread_local would do the same, but where there is no memory
/// to register its destructor, the C library ends the process. Thread-safe.
template <typename T>
class PerThread {
 public:
  /// @errors throws std::bad_alloc, as where the process has PTHREAD_KEYS_MAX of them
  PerThread() {
    if (::pthread_key_create(&key_, [](void* object) { delete static_cast<T*>(object); }) != 0)
      throw std::bad_alloc();
  }
  // Never destroyed: threads may outlive static objects.
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  /// @errors throws std::bad_alloc
  T& operator*() const {
    void* const object = ::pthread_getspecific(key_);
    return object != nullptr ? *static_cast<T*>(object) : Make();
  }
  T* operator->() const { return &**this; }

 private:
  T& Make() const {
    auto made = std::make_unique<T>();
    if (::pthread_setspecific(key_, made.get()) != 0) throw std::bad_alloc();
    return *made.release();
  }

  pthread_key_t key_{};
};

}  // namespace quarry

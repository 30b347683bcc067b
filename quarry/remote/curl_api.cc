#include "quarry/remote/curl_api.h"

#include <dlfcn.h>

namespace quarry::remote {
namespace {

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  return *function != nullptr;
}

bool FindAll(void* library, CurlApi* api) {
  return Find(library, "curl_global_init", &api->global_init) &&
         Find(library, "curl_version_info", &api->version_info) &&
         Find(library, "curl_easy_init", &api->easy_init) &&
         Find(library, "curl_easy_cleanup", &api->easy_cleanup) &&
         Find(library, "curl_easy_reset", &api->easy_reset) &&
         Find(library, "curl_easy_setopt", &api->easy_setopt) &&
         Find(library, "curl_easy_getinfo", &api->easy_getinfo) &&
         Find(library, "curl_easy_strerror", &api->easy_strerror) &&
         Find(library, "curl_slist_append", &api->slist_append) &&
         Find(library, "curl_slist_free_all", &api->slist_free_all) &&
         Find(library, "curl_multi_init", &api->multi_init) &&
         Find(library, "curl_multi_cleanup", &api->multi_cleanup) &&
         Find(library, "curl_multi_setopt", &api->multi_setopt) &&
         Find(library, "curl_multi_add_handle", &api->multi_add_handle) &&
         Find(library, "curl_multi_remove_handle", &api->multi_remove_handle) &&
         Find(library, "curl_multi_perform", &api->multi_perform) &&
         Find(library, "curl_multi_poll", &api->multi_poll) &&
         Find(library, "curl_multi_wakeup", &api->multi_wakeup) &&
         Find(library, "curl_multi_info_read", &api->multi_info_read);
}

Result<const CurlApi*> Load() {
  // Never closed: threads of the library may outlive any caller.
  void* const library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Unimplemented("URLs need libcurl (libcurl4 of Debian): {}; install it, or copy the dataset",
                         ::dlerror());
  static CurlApi api;
  // An older one ignores the option that keeps it to HTTP.
  constexpr unsigned kLeastVersion = 0x075500;
  if (!FindAll(library, &api) || api.version_info(CURLVERSION_NOW)->version_num < kLeastVersion)
    return Unimplemented("libcurl.so.4 is older than 7.85; install a newer one, or copy the dataset");
  if (api.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return Unimplemented("libcurl does not start");
  return &api;
}

}  // namespace

Result<const CurlApi*> LoadCurl() {
  static const auto& loaded = *new Result<const CurlApi*>(Load());
  return loaded;
}

}  // namespace quarry::remote

// Calls a C function of Paddle's: an exception of C++ that it lets through becomes a message.

#include <cstddef>
#include <cstring>
#include <cxxabi.h>
#include <exception>

extern "C" int paddle_sot_call(void *(*function)(void *, void *, void *), void *self, void *args,
                               void *kwargs, void **result, char *message, std::size_t size) {
  const char *what = "an exception of C++";
  try {
    *result = function(self, args, kwargs);
    return 0;
  } catch (abi::__forced_unwind &) {
    // The thread ends: nobody may keep it.
    throw;
  } catch (const std::exception &error) {
    std::strncpy(message, error.what(), size - 1);
  } catch (...) {
    std::strncpy(message, what, size - 1);
  }
  message[size - 1] = '\0';
  return 1;
}

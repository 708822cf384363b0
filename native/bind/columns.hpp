// What the bindings of several domains need: a vector that becomes a numpy array without a copy, and a
// dictionary of what a struct holds.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace latlab::bind {

using Columns = nanobind::typed<nanobind::dict, nanobind::str, nanobind::any>;

// The array owns the vector.
template <class T>
nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>> column(std::vector<T>&& values) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owned->data();
  const std::size_t count = owned->size();
  const nanobind::capsule owner(owned.release(),
                                [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return {data, {count}, owner};
}

// OSError(errno, text) becomes PermissionError and its like, as Python's own calls raise them.
inline void raise_system_errors_as_os_errors() {
  nanobind::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const std::system_error& error) {
      PyErr_SetObject(PyExc_OSError,
                      nanobind::make_tuple(error.code().value(), std::string(error.what())).ptr());
    }
  });
}

template <class T>
nanobind::object held(T&& value) {
  return nanobind::cast(std::forward<T>(value));
}
template <class T>
nanobind::object held(std::vector<T>&& values) {
  return nanobind::cast(column(std::move(values)));
}

inline void put(nanobind::dict& /*into*/) {}

// Names and values, in turn; a vector that is moved here becomes an array.
template <class Value, class... More>
void put(nanobind::dict& into, const char* name, Value&& value, More&&... more) {
  into[name] = held(std::forward<Value>(value));
  put(into, std::forward<More>(more)...);
}

template <class... Fields>
nanobind::dict dict_of(Fields&&... fields) {
  nanobind::dict made;
  put(made, std::forward<Fields>(fields)...);
  return made;
}

}  // namespace latlab::bind

// Threads: under the GIL, like every Python object.
//
// Recording at the speed of a C function: results that are plain data (None, numbers, texts, bytes, tuples of
// such) are kept here, one after the other, and written when there are enough of them; see trace.py for the
// bytes. Whatever else a call gives (an object, an exception) is kept by the hook.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace latlab::stubs::python {

enum Plain : std::uint8_t { kNone, kFalse, kTrue, kInteger, kReal, kText, kBytes, kTuple };
constexpr std::size_t kChunk_bytes = 1U << 18U;    // then they are written
constexpr std::size_t kLongest_bytes = 1U << 16U;  // of one text
constexpr int kDeepest = 8;                        // tuples within tuples

// The plain results of one thread that are not written yet.
struct Kept {
  std::vector<char> bytes;
  std::size_t used = 0;
  std::uint64_t count = 0;
  std::uint64_t next = 0;  // the next result's number, of all that the thread has
  bool slowly = false;     // the hook keeps this thread's results
};

inline void put(Kept& kept, const void* data, std::size_t size) {
  if (kept.used + size > kept.bytes.size()) kept.bytes.resize(2 * (kept.used + size) + 64);
  std::memcpy(kept.bytes.data() + kept.used, data, size);
  kept.used += size;
}

template <class T>
void put(Kept& kept, Plain kind, const T& value) {
  char both[1 + sizeof value];
  both[0] = static_cast<char>(kind);
  std::memcpy(both + 1, &value, sizeof value);
  put(kept, both, sizeof both);
}

inline bool put_text(Kept& kept, Plain kind, const char* text, Py_ssize_t size) {
  if (text == nullptr) PyErr_Clear();  // a text that isn't valid Unicode
  if (text == nullptr || static_cast<std::size_t>(size) > kLongest_bytes) return false;
  put(kept, kind, static_cast<std::uint32_t>(size));
  put(kept, text, static_cast<std::size_t>(size));
  return true;
}

// False, and nothing is kept, where a value isn't plain data.
inline bool put_plain(Kept& kept, PyObject* value, int depth = 0) {
  if (value == Py_None || value == Py_True || value == Py_False) {
    const auto kind = static_cast<char>(value == Py_None ? kNone : value == Py_True ? kTrue : kFalse);
    put(kept, &kind, 1);
    return true;
  }
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyLong_Type) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) return false;
    put(kept, kInteger, static_cast<std::int64_t>(number));
    return true;
  }
  if (type == &PyFloat_Type) {
    put(kept, kReal, PyFloat_AsDouble(value));
    return true;
  }
  if (type == &PyUnicode_Type) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(value, &size);
    return put_text(kept, kText, text, size);
  }
  if (type == &PyBytes_Type) {
    char* text = nullptr;
    Py_ssize_t size = 0;
    PyBytes_AsStringAndSize(value, &text, &size);
    return put_text(kept, kBytes, text, size);
  }
  if (type != &PyTuple_Type || depth == kDeepest) return false;
  const std::size_t before = kept.used;
  const Py_ssize_t size = PyTuple_Size(value);
  put(kept, kTuple, static_cast<std::uint32_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    if (!put_plain(kept, PyTuple_GetItem(value, i), depth + 1)) {
      kept.used = before;
      return false;
    }
  }
  return true;
}

// Whether a call can change nothing by its arguments.
inline bool are_plain(PyObject* const* arguments, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    PyTypeObject* type = Py_TYPE(arguments[i]);
    if (type != &PyLong_Type && type != &PyFloat_Type && type != &PyUnicode_Type && type != &PyBytes_Type &&
        type != &PyBool_Type && arguments[i] != Py_None)
      return false;
  }
  return true;
}

// The arguments of a call as a hook's method takes them.
struct Arguments {
  PyObject* given;
  PyObject* named;
  Arguments(PyObject* const* arguments, std::size_t count, PyObject* names)
      : given(PyTuple_New(static_cast<Py_ssize_t>(count))), named(PyDict_New()) {
    if (given == nullptr || named == nullptr) return;
    for (std::size_t i = 0; i < count; ++i) {
      Py_INCREF(arguments[i]);
      PyTuple_SetItem(given, static_cast<Py_ssize_t>(i), arguments[i]);
    }
    for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_Size(names); ++i) {
      PyDict_SetItem(named, PyTuple_GetItem(names, i), arguments[count + static_cast<std::size_t>(i)]);
    }
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  Arguments(Arguments&&) = delete;
  Arguments& operator=(Arguments&&) = delete;
  ~Arguments() {
    Py_XDECREF(given);
    Py_XDECREF(named);
  }
  [[nodiscard]] bool made() const noexcept { return given != nullptr && named != nullptr; }
};

// What put_plain() wrote, read again; null with a ValueError where it is damaged.
class PlainReader {
 public:
  PlainReader(const char* data, std::size_t size) : at_(data), left_(size) {}
  [[nodiscard]] bool done() const noexcept { return left_ == 0; }

  PyObject* next(int depth = 0) {
    std::uint8_t kind = 0;
    if (!take(&kind, 1)) return nullptr;
    switch (kind) {
      case kNone:
        Py_RETURN_NONE;
      case kFalse:
        Py_RETURN_FALSE;
      case kTrue:
        Py_RETURN_TRUE;
      case kInteger: {
        std::int64_t number = 0;
        return take(&number, sizeof number) ? PyLong_FromLongLong(number) : nullptr;
      }
      case kReal: {
        double number = 0;
        return take(&number, sizeof number) ? PyFloat_FromDouble(number) : nullptr;
      }
      case kText:
      case kBytes:
        return text(kind == kText);
      case kTuple:
        return depth == kDeepest ? damaged() : tuple(depth);
      default:
        return damaged();
    }
  }

 private:
  static PyObject* damaged() {
    PyErr_SetString(PyExc_ValueError, "plain values that are cut short, or of an unknown kind");
    return nullptr;
  }
  bool take(void* to, std::size_t size) {
    if (size > left_) return damaged() != nullptr;
    std::memcpy(to, at_, size);
    at_ += size;
    left_ -= size;
    return true;
  }
  PyObject* text(bool unicode) {
    std::uint32_t size = 0;
    if (!take(&size, sizeof size)) return nullptr;
    if (size > left_) return damaged();
    const char* begin = at_;
    at_ += size;
    left_ -= size;
    return unicode ? PyUnicode_FromStringAndSize(begin, static_cast<Py_ssize_t>(size))
                   : PyBytes_FromStringAndSize(begin, static_cast<Py_ssize_t>(size));
  }
  PyObject* tuple(int depth) {
    std::uint32_t size = 0;
    if (!take(&size, sizeof size)) return nullptr;
    if (size > left_) return damaged();  // each takes a byte at least
    PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(size));
    for (std::uint32_t i = 0; made != nullptr && i < size; ++i) {
      PyObject* one = next(depth + 1);
      if (one == nullptr) {
        Py_DECREF(made);
        return nullptr;
      }
      PyTuple_SetItem(made, static_cast<Py_ssize_t>(i), one);
    }
    return made;
  }

  const char* at_;
  std::size_t left_;
};

}  // namespace latlab::stubs::python

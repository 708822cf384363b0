# Written by CMake (cmake/build.py.in): how this latlab was built.
COMMIT: str
COMPILER: str
KIND: str
MACHINE: str

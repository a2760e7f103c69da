"""The libraries in the wheel, found relative to the package."""
import ctypes
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent / "lib"


def open_library():
    """Opens the wheel's libtegula.so, so that user libraries that need it find it by name. Returns None if there is none."""
    for path in FOLDER.glob("libtegula.so.*"):
        return ctypes.CDLL(str(path))
    return None

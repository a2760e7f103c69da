"""The libraries inside the wheel, which the package finds relative to itself."""
import ctypes
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent / "lib"


def open_library():
    """Opens the wheel's libtegula.so, so that libraries of a user that need one find it by its name; None without it."""
    for path in FOLDER.glob("libtegula.so.*"):
        return ctypes.CDLL(str(path))
    return None
